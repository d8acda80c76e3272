#include "server/rpc/limits/connections/key_holders.h"

#include <utility>

namespace tvq {

void KeyHolders::Add(std::string name) {
  absl::MutexLock lock(&mutex_);
  names_.insert(std::move(name));
}

void KeyHolders::SetStanding(std::vector<Connection>* open) {
  absl::MutexLock lock(&mutex_);
  std::set<std::string> missed = names_;
  for (Connection& connection : *open) {
    const bool has_key = names_.contains(connection.name);
    connection.standing = has_key ? Standing::kKeyHolder : Standing::kUnknown;
    missed.erase(connection.name);
  }
  // A call may come between the connections being read and this.
  for (const std::string& name : missed) {
    if (missed_.contains(name)) names_.erase(name);
  }
  missed_ = std::move(missed);
}

}  // namespace tvq
