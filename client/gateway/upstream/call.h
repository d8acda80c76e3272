// What calls on the server have in common.
#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_H_

#include <grpcpp/client_context.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/grpc_call.h"
#include "client/gateway/http/peers.h"

namespace tvq::gateway {

// What goes with a call as metadata.
struct CallHeaders {
  std::string authorization;  // as the client sent it; empty: none
  std::string request_id;
  std::string session_id;  // for a proxy that sends a session's calls to one server; empty: none
  std::optional<std::chrono::steady_clock::time_point> deadline;
  std::shared_ptr<Peer> peer;  // that the call is made for; nullptr: not counted

  void Apply(grpc::ClientContext* context) const {
    if (!authorization.empty()) context->AddMetadata("authorization", authorization);
    context->AddMetadata("x-request-id", request_id);
    if (FitsHeader(session_id)) context->AddMetadata("tvq-session-id", session_id);
    if (deadline) {
      const auto left = *deadline - std::chrono::steady_clock::now();
      context->set_deadline(std::chrono::system_clock::now() +
                            std::chrono::duration_cast<std::chrono::milliseconds>(left));
    }
  }

  // gRPC ends the process over a value that is anything else.
  static bool FitsHeader(const std::string& value) {
    return !value.empty() && value.size() <= 128 &&
           std::all_of(value.begin(), value.end(), [](char c) { return c > ' ' && c <= '~'; });
  }
};

// A call's context, which knows whether the gateway gave the call up, so that it was reset on its
// way to the server. Such a call counts against the client when the context is destroyed.
class CallContext {
  using Clock = std::chrono::steady_clock;

 public:
  explicit CallContext(const CallHeaders& headers) : peer_(headers.peer) {
    headers.Apply(&context_);
  }
  ~CallContext() {
    const bool reset = ended_ ? timed_out_ : cancelled_.load();
    if (reset && peer_ != nullptr) peer_->GaveUp(began_, Clock::now());
  }
  CallContext(const CallContext&) = delete;

  grpc::ClientContext* get() { return &context_; }
  void Cancel() {
    cancelled_ = true;
    context_.TryCancel();
  }

  // How the call ended, well or not; `answered`: a message of the response came.
  absl::Status Ended(const grpc::Status& status, bool answered = false) {
    const bool given_up = cancelled_ && status.error_code() == grpc::StatusCode::CANCELLED;
    // gRPC's own words for it.
    timed_out_ = status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
                 status.error_message() == "Deadline Exceeded";
    ended_ = !given_up;
    if (timed_out_) {
      return absl::DeadlineExceededError("the time that the client gave this request has passed");
    }
    return client::FromGrpc(status, context_, {.cancelled = cancelled_, .answered = answered});
  }

 private:
  const std::shared_ptr<Peer> peer_;
  const Clock::time_point began_ = Clock::now();
  grpc::ClientContext context_;
  std::atomic<bool> cancelled_ = false;
  bool ended_ = false;  // by the server or the deadline
  bool timed_out_ = false;
};

// Counts calls that have not ended: the loop must run on until they have.
class OpenCalls {
 public:
  OpenCalls() { ++count_; }
  ~OpenCalls() { --count_; }
  OpenCalls(const OpenCalls&) = delete;

  static int64_t count() { return count_; }

 private:
  static inline std::atomic<int64_t> count_{0};
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_H_
