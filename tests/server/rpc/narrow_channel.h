#ifndef TVQ_TESTS_SERVER_RPC_NARROW_CHANNEL_H_
#define TVQ_TESTS_SERVER_RPC_NARROW_CHANNEL_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace tvq {

// On whose streams gRPC takes next to nothing that its client does not read.
inline std::shared_ptr<grpc::Channel> NarrowChannel(int port) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 5);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", port),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_NARROW_CHANNEL_H_
