// What calls on the server have in common.
#ifndef TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_H_
#define TVQ_CLIENT_GATEWAY_UPSTREAM_CALL_H_

#include <grpcpp/client_context.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "client/cpp/grpc_call.h"

namespace tvq::gateway {

// What goes with a call as metadata.
struct CallHeaders {
  std::string authorization;  // as the client sent it; empty: none
  std::string request_id;
  std::string session_id;  // for a proxy that sends a session's calls to one server; empty: none
  std::optional<std::chrono::steady_clock::time_point> deadline;

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

// A call's context, which knows whether the call was given up here.
class CallContext {
 public:
  explicit CallContext(const CallHeaders& headers) { headers.Apply(&context_); }

  grpc::ClientContext* get() { return &context_; }
  void Cancel() {
    cancelled_ = true;
    context_.TryCancel();
  }

  // How the call ended; `answered`: a message of the response came.
  absl::Status Ended(const grpc::Status& status, bool answered = false) const {
    // gRPC's own words for it.
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED &&
        status.error_message() == "Deadline Exceeded") {
      return absl::DeadlineExceededError("the time that the client gave this request has passed");
    }
    return client::FromGrpc(status, context_, {.cancelled = cancelled_, .answered = answered});
  }

 private:
  grpc::ClientContext context_;
  std::atomic<bool> cancelled_ = false;
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
