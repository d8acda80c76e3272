#ifndef TVQ_CLIENT_CPP_GRPC_LOG_H_
#define TVQ_CLIENT_CPP_GRPC_LOG_H_

namespace tvq::client {

// Keeps gRPC from writing to stderr, for a program that tells itself why calls fail; before
// anything else of gRPC, and before the first thread. GRPC_VERBOSITY wins where it is set.
void SilenceGrpc();

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_GRPC_LOG_H_
