#include "server/rpc/limits/connections/key_holders.h"

#include <utility>

namespace tvq {

void KeyHolders::Add(std::string name) {
  absl::MutexLock lock(&mutex_);
  names_.insert(std::move(name));
}

Standing KeyHolders::StandingOf(const Connection& connection) const {
  absl::MutexLock lock(&mutex_);
  return names_.contains(connection.name) ? Standing::kKeyHolder : Standing::kUnknown;
}

void KeyHolders::Forget(const std::vector<Connection>& open) {
  absl::MutexLock lock(&mutex_);
  std::set<std::string> missed = names_;
  for (const Connection& connection : open) missed.erase(connection.name);
  // A call may come between the connections being read and this.
  for (const std::string& name : missed) {
    if (missed_.contains(name)) names_.erase(name);
  }
  missed_ = std::move(missed);
}

}  // namespace tvq
