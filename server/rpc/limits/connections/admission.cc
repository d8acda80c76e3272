#include "server/rpc/limits/connections/admission.h"

#include <utility>

#include "base/network.h"

namespace tvq {

bool Admission::Enter(const Address& peer, Load load, Time now) {
  absl::MutexLock lock(&mutex_);
  const bool suspect = load == Load::kHeavy || sight_.wary.contains(NetworkOf(peer.ip));
  if (!MayEnter(suspect, now)) return false;
  ++entered_;
  last_ = now;
  if (suspect) {
    ++suspects_entered_;
    last_suspect_ = now;
  }
  return true;
}

bool Admission::MayEnter(bool suspect, Time now) const {
  if (sight_.crowded) return !suspect && now - last_ >= kRarely;
  if (sight_.calm()) {
    return entered_ < kBetweenLooks && (!suspect || suspects_entered_ < kSuspectsBetweenLooks);
  }
  return entered_ == 0 && (!suspect || now - last_suspect_ >= kRarely);
}

void Admission::Looked(Sight sight) {
  absl::MutexLock lock(&mutex_);
  sight_ = std::move(sight);
  entered_ = 0;
  suspects_entered_ = 0;
}

}  // namespace tvq
