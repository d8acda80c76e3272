#ifndef TVQ_SERVER_RPC_SERVICES_SERVER_HISTORY_H_
#define TVQ_SERVER_RPC_SERVICES_SERVER_HISTORY_H_

#include <chrono>
#include <cstddef>
#include <vector>

#include "tvq/v1/model.pb.h"

namespace tvq {

// Samples from the server's start until now, in a bounded room: the longer it runs, the farther
// they lie apart.
class ServerHistory {
 public:
  static constexpr size_t kMostSamples = 720;  // even, so that the newest gap is as the others
  static constexpr std::chrono::nanoseconds kFirstPeriod = std::chrono::seconds(1);

  // Whether a sample is to be added at this time after the start.
  bool IsDue(std::chrono::nanoseconds uptime) const { return uptime >= due_; }
  // Of this time, which is due. If there is no room, every second one of those before goes.
  void Add(std::chrono::nanoseconds uptime, v1::ServerSample sample);

  // Oldest first.
  const std::vector<v1::ServerSample>& samples() const { return samples_; }

 private:
  std::chrono::nanoseconds period_ = kFirstPeriod;
  std::chrono::nanoseconds due_{0};
  std::vector<v1::ServerSample> samples_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_SERVER_HISTORY_H_
