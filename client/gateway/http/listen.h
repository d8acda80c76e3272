// Sockets that listen.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_LISTEN_H_
#define TVQ_CLIENT_GATEWAY_HTTP_LISTEN_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tvq::gateway {

namespace asio = boost::asio;

struct Listeners {
  std::vector<asio::ip::tcp::acceptor> acceptors;    // at least one, all at the same port
  std::vector<asio::ip::tcp::endpoint> unavailable;  // which this machine does not have
};

// The addresses of a name or the address that `host` is. UNAVAILABLE, naming it, if there are none.
absl::StatusOr<std::vector<asio::ip::tcp::endpoint>> Resolve(const asio::any_io_executor& executor,
                                                             const std::string& host, int port);

// Listens on all of them that this machine has. They have the same port; 0 is a free one.
// UNAVAILABLE, naming the address, if it cannot listen on one, or has none.
absl::StatusOr<Listeners> ListenOn(const asio::any_io_executor& executor,
                                   const std::vector<asio::ip::tcp::endpoint>& endpoints);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_LISTEN_H_
