#include "server/drain/hand_over.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "server/rpc/wire/grpc_time.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/status.h"
#include "tvq/v1/admin.grpc.pb.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Sessions on their way at once, if the peer has room: enough to hide the network's latency.
constexpr int kSenders = 4;

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const PeerOptions& peer) {
  if (auto status = CheckPeer(peer); !status.ok()) return status;
  if (!peer.tls.enabled()) return grpc::InsecureChannelCredentials();
  const auto texts = ReadTlsFiles(peer.tls);
  if (!texts.ok()) return texts.status();
  return grpc::SslCredentials({.pem_root_certs = texts->ca,
                               .pem_private_key = texts->key,
                               .pem_cert_chain = texts->certificates});
}

// Whether other sessions would fare no better.
bool TakesNothing(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnauthenticated(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnimplemented(status) ||
         absl::IsDeadlineExceeded(status);
}

// How long the peer wants to be left alone before it is asked again; nothing if that is of no use.
std::optional<std::chrono::milliseconds> Pushback(const grpc::ClientContext& context) {
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto it = trailers.find(kRetryPushbackTrailer);
  int64_t ms = -1;
  if (it == trailers.end() ||
      !absl::SimpleAtoi(absl::string_view(it->second.data(), it->second.size()), &ms) || ms < 0) {
    return std::nullopt;
  }
  return std::chrono::milliseconds(ms);
}

// To this machine past any proxy that the environment names.
std::shared_ptr<grpc::Channel> ChannelTo(
    const std::string& address, const std::shared_ptr<grpc::ChannelCredentials>& credentials) {
  grpc::ChannelArguments arguments;
  if (IsLoopback(address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(address, credentials, arguments);
}

struct Sent {
  absl::Status status;
  std::optional<std::chrono::milliseconds> again_in;  // the peer has no room at the moment
};

class Sender {
 public:
  Sender(SessionStore& store, const PeerOptions& peer,
         const std::shared_ptr<grpc::ChannelCredentials>& credentials, SteadyTime until,
         std::stop_token stop)
      : store_(store),
        key_(peer.key),
        until_(until),
        stop_(std::move(stop)),
        stub_(v1::AdminService::NewStub(ChannelTo(peer.address, credentials))) {}

  // Where the peer has one of this id already it cannot be known whether that is the same: what is
  // here stays, and counts as left.
  Sent Send(const SessionRecord& record) {
    v1::AdoptSessionResponse response;
    Sent sent = Upload(record, &response);
    if (sent.status.ok() && response.persisted_version() >= record.persisted_version) Drop(record);
    return sent;
  }

 private:
  using Writer = grpc::ClientWriter<v1::AdoptSessionRequest>;

  void Drop(const SessionRecord& record) {
    if (store_.shares_storage()) return store_.Forget(record.id);
    const absl::Status deleted = store_.Delete({.owner = record.owner, .id = record.id});
    if (deleted.ok()) return;
    spdlog::warn("session {} was handed over, but a copy is left: {}", record.id,
                 std::string(deleted.message()));
  }

  // The session, then its marks.
  Sent Upload(const SessionRecord& record, v1::AdoptSessionResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcTime(until_));
    if (!key_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", key_));
    const auto writer = stub_->AdoptSession(&context, response);
    const std::stop_callback interrupt(stop_, [&context] { context.TryCancel(); });
    bool open = true;  // false: the peer takes no more, and says why
    absl::Status status = Write(record.id, "", *writer, &open);
    for (const MarkRecord& mark : record.marks) {
      if (!status.ok() || !open || mark.version == record.version) continue;
      status = Write(record.id, mark.name, *writer, &open);
    }
    if (!status.ok()) {
      context.TryCancel();
      (void)writer->Finish();
      return {status, std::nullopt};
    }
    writer->WritesDone();
    status = ToAbsl(writer->Finish());
    return {status, absl::IsResourceExhausted(status) ? Pushback(context) : std::nullopt};
  }

  absl::Status Write(const std::string& id, const std::string& mark, Writer& writer, bool* open) {
    const auto stream = store_.ExportPart(id, mark);
    if (!stream.ok()) return stream.status();
    v1::AdoptSessionRequest message;
    message.set_mark(mark);
    while (*open) {
      auto chunk = (*stream)->Next(kSnapshotChunkBytes);
      if (!chunk.ok()) return chunk.status();
      if (chunk->empty()) break;
      message.set_chunk(*std::move(chunk));
      *open = writer.Write(message);
    }
    return absl::OkStatus();
  }

  SessionStore& store_;
  const std::string key_;
  const SteadyTime until_;
  const std::stop_token stop_;
  const std::unique_ptr<v1::AdminService::Stub> stub_;
};

// The sessions that are still to be sent, and the threads that send them. One that the peer has no
// room for is put back behind the others, and its thread waits before it sends the next: so there
// are as many at once as the peer takes.
class HandingOver {
 public:
  HandingOver(Sender& sender, const std::vector<SessionRecord>& records, SteadyTime until,
              std::stop_token stop)
      : sender_(sender),
        until_(until),
        stop_(std::move(stop)),
        waiting_(records.begin(), records.end()) {}

  // Returns how many were taken.
  int64_t Run() {
    std::vector<std::jthread> threads;
    threads.reserve(kSenders);
    for (int i = 0; i < kSenders; ++i) threads.emplace_back([this] { SendAll(); });
    threads.clear();  // joins them
    return taken_;
  }

 private:
  void SendAll() {
    while (const std::optional<SessionRecord> record = Next()) {
      const Sent sent = sender_.Send(*record);
      if (sent.status.ok()) {
        ++taken_;
      } else if (sent.again_in && Wait(*sent.again_in)) {
        PutBack(*record);
      } else {
        spdlog::warn("session {} was not handed over: {}", record->id, sent.status.ToString());
        if (TakesNothing(sent.status)) hopeless_ = true;
      }
    }
  }

  std::optional<SessionRecord> Next() {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty() || IsOver()) return std::nullopt;
    SessionRecord record = std::move(waiting_.front());
    waiting_.pop_front();
    return record;
  }

  void PutBack(const SessionRecord& record) {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(record);
  }

  // False if that is the end of it.
  bool Wait(std::chrono::milliseconds time) {
    std::mutex mutex;
    std::unique_lock lock(mutex);
    std::condition_variable_any never;
    never.wait_until(lock, stop_, std::min<SteadyTime>(until_, SteadyClock::now() + time),
                     [] { return false; });
    return !IsOver();
  }

  bool IsOver() const {
    return stop_.stop_requested() || hopeless_ || SteadyClock::now() >= until_;
  }

  Sender& sender_;
  const SteadyTime until_;
  const std::stop_token stop_;
  std::atomic<int64_t> taken_ = 0;
  std::atomic<bool> hopeless_ = false;
  std::mutex mutex_;
  std::deque<SessionRecord> waiting_;  // guarded by mutex_
};

}  // namespace

absl::Status CheckPeer(const PeerOptions& peer) {
  if (peer.key.empty() || peer.tls.enabled() || IsLoopback(peer.address)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--drain-peer-key: would travel in plain text to ", peer.address,
      ", another machine; give both servers TLS (--ssl-certfile, --ssl-keyfile, --ssl-ca-certs)"));
}

absl::StatusOr<HandOverResult> HandOver(SessionStore& store, const PeerOptions& peer,
                                        SteadyTime until, const std::stop_token& stop) {
  const auto credentials = Credentials(peer);
  if (!credentials.ok()) return credentials.status();
  Sender sender(store, peer, *credentials, until, stop);
  const std::vector<SessionRecord> records = store.HeldHere();
  const int64_t taken = HandingOver(sender, records, until, stop).Run();
  return HandOverResult{.taken = taken, .left = static_cast<int64_t>(records.size()) - taken};
}

}  // namespace tvq
