// Decides who may call.
#ifndef TVQ_SERVER_RPC_CALLS_CALL_GATE_H_
#define TVQ_SERVER_RPC_CALLS_CALL_GATE_H_

#include <grpcpp/server_context.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "server/rpc/access/api_keys.h"
#include "server/rpc/access/caller.h"
#include "server/rpc/limits/connections/key_holders.h"
#include "server/rpc/limits/rate_limiter.h"

namespace tvq {

struct CallGateOptions {
  std::string api_key_file;            // empty: who reaches the server may call
  double max_requests_per_second = 0;  // of a key, or without keys of an address; 0: no limit
  // Of a key, where its line does not say otherwise, or without keys of an address.
  OwnerLimits limits;
};

// Any thread.
class CallGate {
 public:
  // Errors of ApiKeys::Read.
  static absl::StatusOr<std::unique_ptr<CallGate>> Create(const CallGateOptions& options);

  // Before anything else of a call is looked at: UNAUTHENTICATED without a key of the file,
  // PERMISSION_DENIED when the key does not allow the method, RESOURCE_EXHAUSTED when the caller's
  // requests come too fast. Sets the request id in any case, the rest when the call is accepted.
  absl::Status Admit(const MethodInfo& method, grpc::ServerContextBase* rpc, Caller* caller);

  // The part of Admit that keys decide. `authorization`: the metadata's value; unset if the call
  // has none or several.
  absl::Status Authorize(const MethodInfo& method, std::optional<std::string_view> authorization,
                         Caller* caller) const;

  bool has_keys() const { return !options_.api_key_file.empty(); }

  // The connections of Admit's callers with a key; null without a file.
  KeyHolders* key_holders() { return has_keys() ? &key_holders_ : nullptr; }

  // What the file of keys holds now, for UseKeys; null without a file.
  absl::StatusOr<std::shared_ptr<const ApiKeys>> ReadKeys() const;
  void UseKeys(std::shared_ptr<const ApiKeys> keys);

 private:
  explicit CallGate(CallGateOptions options);

  std::shared_ptr<const ApiKeys> keys() const;

  const CallGateOptions options_;
  RateLimiter limiter_;
  KeyHolders key_holders_;
  mutable Mutex mutex_;
  std::shared_ptr<const ApiKeys> keys_ ABSL_GUARDED_BY(mutex_);  // null without a file
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_CALL_GATE_H_
