#include "client/cpp/grpc_log.h"

#include <cstdlib>

namespace tvq::client {

void SilenceGrpc() { setenv("GRPC_VERBOSITY", "NONE", /*overwrite=*/0); }

}  // namespace tvq::client
