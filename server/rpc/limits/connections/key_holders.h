#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_KEY_HOLDERS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_KEY_HOLDERS_H_

#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "base/mutex.h"
#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// The connections whose clients have called with a key that holds. Any thread.
class KeyHolders {
 public:
  // `name` of the peer, as gRPC's context of the call has it.
  void Add(std::string name);

  // Of a client: a key holder, or unknown.
  Standing StandingOf(const Connection& connection) const;

  // `open`: all that there are; what is not among them this time and the next is forgotten. One
  // thread.
  void Forget(const std::vector<Connection>& open);

  // When other keys hold: a client that has one of them calls with it again.
  void ForgetAll();

 private:
  mutable Mutex mutex_;
  // By the name, whether the connection was missed the last time.
  absl::flat_hash_map<std::string, bool> missed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_KEY_HOLDERS_H_
