// Decides who may call.
#ifndef TVQ_SERVER_RPC_CALL_GATE_H_
#define TVQ_SERVER_RPC_CALL_GATE_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/api_keys.h"
#include "server/rpc/caller.h"

namespace tvq {

struct CallGateOptions {
  std::string api_key_file;  // empty: who reaches the server may call
};

// Any thread.
class CallGate {
 public:
  // Errors of ApiKeys::Read.
  static absl::StatusOr<std::unique_ptr<CallGate>> Create(const CallGateOptions& options);

  // Before anything else of a call is looked at: UNAUTHENTICATED without a key of the file,
  // PERMISSION_DENIED when the key does not allow the method. Sets the request id in any case, the
  // rest when the call is accepted.
  absl::Status Admit(const MethodInfo& method, grpc::CallbackServerContext* rpc, Caller* caller);

  // The same for the value of the call's `authorization`; unset if it has none or several.
  absl::Status Admit(const MethodInfo& method, std::optional<std::string_view> authorization,
                     Caller* caller);

  bool has_keys() const { return !options_.api_key_file.empty(); }

  // Reads the file of keys again and returns how many there are now; 0 without a file. On an error
  // the old ones stay.
  absl::StatusOr<int> Reload();

 private:
  explicit CallGate(CallGateOptions options) : options_(std::move(options)) {}

  std::shared_ptr<const ApiKeys> keys() const;

  const CallGateOptions options_;
  mutable absl::Mutex mutex_;
  std::shared_ptr<const ApiKeys> keys_ ABSL_GUARDED_BY(mutex_);  // null without a file
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALL_GATE_H_
