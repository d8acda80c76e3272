#ifndef TVQ_CLIENT_LOADTEST_DRIVER_WORKLOAD_H_
#define TVQ_CLIENT_LOADTEST_DRIVER_WORKLOAD_H_

#include <cstdint>
#include <memory>

#include "client/loadtest/workload/length.h"
#include "client/loadtest/workload/prompts.h"
#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

// What every client does.
struct Workload {
  std::shared_ptr<const Prompts> prompts;
  LengthDistribution output = LengthDistribution::Fixed(64);  // tokens
  // A conversation is so many requests on a session of its own; without sessions it is one request.
  bool sessions = false;
  LengthDistribution turns = LengthDistribution::Fixed(1);
  // Mean of the pause between turns, and of a user between conversations; exponential. 0: none.
  Nanos think_time = 0;
  double slow_readers = 0;  // fraction of the requests whose stream is read with pauses
  Nanos read_pause = 0;
  double cancels = 0;  // fraction of the requests that are cancelled in mid-stream
  int retries = 0;     // of a request that was refused with a time to come back
  uint64_t seed = 1;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_DRIVER_WORKLOAD_H_
