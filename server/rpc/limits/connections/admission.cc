#include "server/rpc/limits/connections/admission.h"

#include <utility>

namespace tvq {

bool Admission::Enter(const std::string& network, Load load, Time now) {
  const MutexLock lock(&mutex_);
  const bool suspect = Suspects(network, load);
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
  if (entered_ >= kBetweenLooks) return false;
  if (sight_.calm()) return !suspect || suspects_entered_ < kSuspectsBetweenLooks;
  return now - last_ >= kOften && (!suspect || now - last_suspect_ >= kRarely);
}

bool Admission::IsSuspect(const std::string& network, Load load) const {
  const MutexLock lock(&mutex_);
  return Suspects(network, load);
}

bool Admission::Suspects(const std::string& network, Load load) const {
  return load == Load::kHeavy || sight_.wary.contains(network);
}

bool Admission::IsOpen(Time now) const {
  const MutexLock lock(&mutex_);
  return MayEnter(/*suspect=*/false, now);
}

void Admission::Looked(Sight sight) {
  const MutexLock lock(&mutex_);
  sight_ = std::move(sight);
  entered_ = 0;
  suspects_entered_ = 0;
}

}  // namespace tvq
