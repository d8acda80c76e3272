#include "server/rpc/limits/connections/crowd.h"

#include <algorithm>

namespace tvq {

Crowd::Crowd(const ConnectionLimits& limits, double resets)
    : resets_(resets),
      streams_(static_cast<double>(std::max(kStreams, limits.max_streams))),
      max_bytes_(static_cast<double>(limits.max_bytes)) {}

void Crowd::Begin(int wary_networks, Time now) {
  most_new_ = (wary_networks >= kMany ? kNewAmongMany : 1) * streams_;
  group_.Begin(resets_, now);
  new_live_ = 0;
  new_bytes_ = 0;
  bytes_ = 0;
}

void Crowd::Add(Watched* one, const Lately& fresh) {
  new_live_ += one->closed ? one->live() : one->new_live();
  new_bytes_ += one->closed ? one->bytes() : one->new_bytes();
  bytes_ += one->bytes();
  if (!one->closed) group_.Add(one, fresh);
}

void Crowd::Judge(std::vector<Group::Verdict>* closed) {
  using Reason = Group::Reason;
  Settle();
  const double bytes = (bytes_ > max_bytes_ ? kAfterStorm : 1) * max_bytes_;
  group_.CloseMost(Reason::kBytes, &Watched::bytes, group_.Sum(&Watched::bytes) - bytes, closed);
  if (resets_ > 0) {
    group_.CloseMost(Reason::kCrowd, &Watched::churn, group_.lately.churn() - resets_, closed);
    const double most_new = (new_live_ > most_new_ ? kAfterStorm : 1) * most_new_;
    if (group_.Sum(&Watched::new_live) > most_new) CloseUnknown(closed);
    group_.CloseMost(Reason::kCrowd, &Watched::new_live, group_.Sum(&Watched::new_live) - most_new,
                     closed);
    group_.CloseMost(Reason::kCrowd, &Watched::live, group_.Sum(&Watched::live) - streams_, closed);
  }
  Settle();
}

void Crowd::CloseUnknown(std::vector<Group::Verdict>* closed) {
  for (Watched* const one : group_.open) {
    if (one->seen.standing != Standing::kUnknown) continue;
    Group::Close(one, Group::Reason::kCrowd, one->new_live(), closed);
  }
}

void Crowd::Settle() {
  std::erase_if(group_.open, [this](const Watched* one) {
    if (!one->closed) return false;
    group_.lately.opened = std::max(0.0, group_.lately.opened - one->lately.opened);
    group_.lately.reset = std::max(0.0, group_.lately.reset - one->lately.reset);
    return true;
  });
}

bool Crowd::IsCrowded() const {
  return (resets_ > 0 && new_live_ > kCrowded * most_new_) || new_bytes_ > kCrowded * max_bytes_;
}

}  // namespace tvq
