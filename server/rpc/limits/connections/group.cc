#include "server/rpc/limits/connections/group.h"

#include <algorithm>
#include <utility>

namespace tvq {

void Group::Begin(double per_second, Lately::Time now) {
  lately.Leak(per_second, now);
  open.clear();
}

void Group::Add(Watched* one, const Lately& fresh) {
  lately.opened += fresh.opened;
  lately.reset += fresh.reset;
  open.push_back(one);
}

double Group::Sum(Count count) const {
  double sum = 0;
  for (const Watched* const one : open) sum += one->closed ? 0 : (one->*count)();
  return sum;
}

void Group::CloseMost(Reason reason, Count count, double above, std::vector<Verdict>* closed) {
  if (above <= 0) return;
  std::ranges::sort(open, {}, [count](const Watched* one) {
    return std::pair(one->seen.standing, -(one->*count)() / one->served());
  });
  for (Watched* const one : open) {
    const double part = (one->*count)();
    if (above <= 0) return;
    if (one->closed || part <= 0) continue;
    above -= part;
    Close(one, reason, part, closed);
  }
}

void Group::Close(Watched* one, Reason reason, double count, std::vector<Verdict>* closed) {
  if (one->closed) return;
  one->closed = one->lately.at;
  closed->push_back({one->seen, reason, static_cast<int64_t>(count)});
}

}  // namespace tvq
