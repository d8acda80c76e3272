#include "client/cpp/grpc_call.h"

#include <chrono>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "client/cpp/grpc_words.h"
#include "client/cpp/proxy.h"
#include "client/cpp/refusal_details.h"
#include "client/cpp/unreachable.h"

namespace tvq::client {
namespace {

constexpr char kSessionId[] = "tvq-session-id";
constexpr size_t kMaxSessionIdBytes = 128;

absl::Status GivenUp() {
  return absl::UnavailableError(
      "the server gave the call up before it answered, as one does that shuts down");
}

absl::Status ReadTooSlowly() {
  return absl::DeadlineExceededError(
      "the server ended the call, as it does when its answer is read too slowly");
}

absl::Status OverranAServerThatCloses() {
  return absl::DeadlineExceededError(
      "the call took longer than its timeout; meanwhile the server began to close the connection, "
      "as one does that shuts down");
}

}  // namespace

absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context,
                      const CallEnd& end) {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::CANCELLED && !end.cancelled) {
    return end.answered || !context.GetServerInitialMetadata().empty() ? ReadTooSlowly()
                                                                       : GivenUp();
  }
  const auto code = static_cast<absl::StatusCode>(status.error_code());
  if (code == absl::StatusCode::kDeadlineExceeded && !end.unconnected.empty() && !end.answered) {
    return absl::DeadlineExceededError(
        absl::StrCat("no connection to ", end.unconnected, " came about within the timeout.",
                     ThroughProxy(end.unconnected), " ", kIsItRunning));
  }
  if (code == absl::StatusCode::kDeadlineExceeded && end.closing) return OverranAServerThatCloses();
  if (const auto refusal = RefusalIn(status)) return WithRefusal(*refusal, status.error_message());
  const std::string told = WithoutGrpcWords(code, status.error_message());
  if (code == absl::StatusCode::kResourceExhausted && IsTooLarge(status.error_message())) {
    return Refused(Reason::kMessageTooLarge, told);
  }
  return absl::Status(code, told);
}

CallEnd EndOf(const Transport& transport, bool cancelled, bool answered) {
  CallEnd end{.cancelled = cancelled, .answered = answered};
  const grpc_connectivity_state state = transport.channel->GetState(false);
  // A call that waits for a connection makes the channel seek one.
  end.closing = state == GRPC_CHANNEL_IDLE;
  if (!end.closing && state != GRPC_CHANNEL_READY) end.unconnected = transport.address;
  return end;
}

void Apply(const CallOptions& options, const Transport& transport, grpc::ClientContext* context,
           const std::string& session_id) {
  if (options.timeout != absl::InfiniteDuration()) {
    context->set_deadline(std::chrono::system_clock::now() +
                          absl::ToChronoMicroseconds(options.timeout));
  }
  if (!options.request_id.empty()) context->AddMetadata("x-request-id", options.request_id);
  if (!transport.authorization.empty()) {
    context->AddMetadata("authorization", transport.authorization);
  }
  // What no header can carry is no id that a server made; it says so itself.
  if (!session_id.empty() && session_id.size() <= kMaxSessionIdBytes &&
      absl::c_all_of(session_id, absl::ascii_isgraph)) {
    context->AddMetadata(kSessionId, session_id);
  }
}

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const std::optional<Refusal> refusal = FindRefusal(status);
  if (!refusal || refusal->retry != Retry::kAfter) return std::nullopt;
  return absl::Milliseconds(refusal->retry_after_ms);
}

}  // namespace tvq::client
