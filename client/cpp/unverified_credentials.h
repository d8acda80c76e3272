// Not part of the interface: TLS without a check of the server's certificate.
#ifndef TVQ_CLIENT_CPP_UNVERIFIED_CREDENTIALS_H_
#define TVQ_CLIENT_CPP_UNVERIFIED_CREDENTIALS_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <memory>

#include "absl/status/statusor.h"
#include "client/cpp/connect.h"

namespace tvq::client {

// As Credentials of transport.h, but whatever certificate the server shows is believed: for calls
// without secrets alone. `seen` becomes true when a server has shown one, in a handshake that ended
// well as far as this side can tell: with TLS 1.3 a server looks at the client's certificate later.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> UnverifiedCredentials(
    const ConnectOptions& options, std::shared_ptr<std::atomic<bool>> seen);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_UNVERIFIED_CREDENTIALS_H_
