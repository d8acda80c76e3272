#include "server/rpc/limits/connections/key_holders.h"

#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"

namespace tvq {

void KeyHolders::Add(std::string name) {
  const MutexLock lock(&mutex_);
  missed_.insert_or_assign(std::move(name), false);
}

Standing KeyHolders::StandingOf(const Connection& connection) const {
  const MutexLock lock(&mutex_);
  return missed_.contains(connection.name) ? Standing::kKeyHolder : Standing::kUnknown;
}

void KeyHolders::Forget(const std::vector<Connection>& open) {
  absl::flat_hash_set<std::string_view> names;
  for (const Connection& connection : open) names.insert(connection.name);
  const MutexLock lock(&mutex_);
  // A call may come between the connections being read and this.
  absl::erase_if(missed_, [&names](auto& entry) {
    const bool missed = !names.contains(entry.first);
    return std::exchange(entry.second, missed) && missed;
  });
}

void KeyHolders::ForgetAll() {
  const MutexLock lock(&mutex_);
  missed_.clear();
}

}  // namespace tvq
