#ifndef TVQ_SERVER_RPC_WIRE_GRPC_TIME_H_
#define TVQ_SERVER_RPC_WIRE_GRPC_TIME_H_

#include <grpc/support/time.h>

#include <chrono>

#include "server/engine/request/request.h"

namespace tvq {

// A moment as gRPC's deadline, also there on a clock that is never set.
inline gpr_timespec ToGrpcTime(SteadyTime time) {
  const std::chrono::nanoseconds left = time - std::chrono::steady_clock::now();
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC),
                      gpr_time_from_nanos(left.count(), GPR_TIMESPAN));
}

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_GRPC_TIME_H_
