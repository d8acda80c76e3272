// Not part of the interface: TLS without a look at who the server is.
#ifndef TVQ_CLIENT_CPP_UNVERIFIED_CREDENTIALS_H_
#define TVQ_CLIENT_CPP_UNVERIFIED_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <memory>

#include "absl/status/statusor.h"
#include "client/cpp/connect.h"

namespace tvq::client {

// As Credentials of transport.h, but whatever certificate the server shows is believed: for calls
// without secrets alone.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> UnverifiedCredentials(
    const ConnectOptions& options);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_UNVERIFIED_CREDENTIALS_H_
