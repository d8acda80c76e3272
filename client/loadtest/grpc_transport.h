#ifndef TVQ_CLIENT_LOADTEST_GRPC_TRANSPORT_H_
#define TVQ_CLIENT_LOADTEST_GRPC_TRANSPORT_H_

#include <memory>
#include <vector>

#include "client/cpp/transport.h"
#include "client/loadtest/driver/target.h"
#include "client/loadtest/driver/transport.h"

namespace tvq::loadtest {

// Calls of tvq.v1 through one completion queue that the thread in Run serves: a token costs a read
// and no change of thread. A second thread only wakes it for timers.
std::unique_ptr<Transport> MakeGrpcTransport(const std::vector<client::Transport>& connections,
                                             const RequestSettings& settings);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_GRPC_TRANSPORT_H_
