#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_KEY_HOLDERS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_KEY_HOLDERS_H_

#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// The connections whose clients have called with a key. Any thread.
class KeyHolders {
 public:
  // `name` of the peer, as gRPC's context of the call has it.
  void Add(std::string name);

  // Tells the connections of key holders from others. `open`: all that there are; what is not among
  // them this time and the next is forgotten.
  void SetStanding(std::vector<Connection>* open);

 private:
  absl::Mutex mutex_;
  std::set<std::string> names_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> missed_ ABSL_GUARDED_BY(mutex_);  // of names_, those that were not open
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_KEY_HOLDERS_H_
