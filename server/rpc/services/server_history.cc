#include "server/rpc/services/server_history.h"

#include <utility>

namespace tvq {

void ServerHistory::Add(std::chrono::nanoseconds uptime, v1::ServerSample sample) {
  if (samples_.size() == kMostSamples) {
    for (size_t i = 0; i < kMostSamples / 2; ++i) samples_[i].Swap(&samples_[2 * i]);
    samples_.resize(kMostSamples / 2);
    period_ *= 2;
  }
  samples_.push_back(std::move(sample));
  due_ = uptime + period_;
}

}  // namespace tvq
