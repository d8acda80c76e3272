// A server on a thread of its own, and clients that are as rude as a test wants.
#ifndef TVQ_TESTS_CLIENT_GATEWAY_HTTP_LOOPBACK_H_
#define TVQ_TESTS_CLIENT_GATEWAY_HTTP_LOOPBACK_H_

#include <boost/asio/io_context.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "client/gateway/http/server.h"

namespace tvq::gateway {

class LoopbackServer {
 public:
  // `handler` answers every request.
  LoopbackServer(const HttpOptions& options, Handler handler)
      : LoopbackServer(options, std::move(handler), [] { return nullptr; }) {}
  LoopbackServer(const HttpOptions& options, Handler handler, HttpServer::TlsSource tls);
  // Ends what is still connected.
  ~LoopbackServer();

  int port() const { return server_->port(); }
  // Begins to end what is connected.
  void StopNow();

 private:
  asio::io_context loop_{1};
  std::optional<HttpServer> server_;
  std::thread thread_;
};

// A blocking socket; what a server must take within a minute.
class RawClient {
 public:
  // `receive_bytes`: of the kernel's buffer; 0: as it likes. `address`: the server's, and its own.
  explicit RawClient(int port, int receive_bytes = 0, const char* address = "127.0.0.1");
  ~RawClient() { Close(); }
  RawClient(const RawClient&) = delete;

  void Send(std::string_view bytes);
  // False: the other side has closed the connection.
  bool SendIfOpen(std::string_view bytes);
  // At most `size` bytes; empty: the other side has ended.
  std::string Receive(size_t size);
  // The next answer, which has a length; empty if the connection ends before.
  std::string Answer();
  void Close();

 private:
  int socket_;
  std::string unread_;
};

}  // namespace tvq::gateway

#endif  // TVQ_TESTS_CLIENT_GATEWAY_HTTP_LOOPBACK_H_
