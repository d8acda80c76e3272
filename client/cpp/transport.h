// Not part of the interface: the connection that the services of a client share.
#ifndef TVQ_CLIENT_CPP_TRANSPORT_H_
#define TVQ_CLIENT_CPP_TRANSPORT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/cpp/admin.h"
#include "client/cpp/connect.h"
#include "client/cpp/sessions.h"

namespace tvq::client {

struct Transport {
  std::shared_ptr<grpc::Channel> channel;
  std::string authorization;  // value of this header; empty: not sent
  std::string address;        // of the server
};

// The options' files, read. Errors as of Open.
absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const ConnectOptions& options);

// The options with an address as gRPC takes it, and with `tls` where the address asks for it.
absl::StatusOr<ConnectOptions> Checked(ConnectOptions options);

// A channel to a checked address. Calls to this machine never go through a proxy, whatever
// http_proxy and the like say.
std::shared_ptr<grpc::Channel> NewChannel(
    const ConnectOptions& checked, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    grpc::ChannelArguments arguments = {});

// INVALID_ARGUMENT for options that do not fit together, NOT_FOUND for a file that cannot be read.
absl::StatusOr<Transport> Open(const ConnectOptions& options);

std::unique_ptr<Sessions> MakeSessions(const Transport& transport);
std::unique_ptr<Admin> MakeAdmin(const Transport& transport);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_TRANSPORT_H_
