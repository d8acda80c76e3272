#include "client/gateway/http/probe.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::gateway {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;

absl::Status Unavailable(const std::string& why) { return absl::UnavailableError(why); }

// Without the place in asio's sources, which its exceptions tell, too.
std::string Why(const boost::system::error_code& error, bool tls) {
  if (error == asio::error::connection_refused) return "nothing listens there";
  if (error.category() == asio::error::get_netdb_category()) return "the host is unknown";
  const bool ended = error == asio::error::eof || error == asio::error::connection_reset ||
                     error == asio::ssl::error::stream_truncated ||
                     error == http::error::end_of_stream || error == http::error::partial_message;
  const bool other = error.category() == asio::error::get_ssl_category() ||
                     error.category() == asio::ssl::error::get_stream_category() ||
                     error.category() == make_error_code(http::error::end_of_stream).category();
  if (!ended && !other) return error.message();
  return absl::StrCat(
      "what listens there ",
      ended ? "ended the connection without an answer: it stops, has no room, or " : "",
      "does not speak ", tls ? "HTTPS" : "HTTP",
      tls ? "" : "; --ssl-certfile and --ssl-keyfile ask for HTTPS");
}

// Exceptions of asio end the coroutine.
template <typename Stream>
asio::awaitable<unsigned> Get(Stream& stream, const ProbeTarget& target) {
  http::request<http::empty_body> request(http::verb::get, target.path, 11);
  request.set(http::field::host, target.host);
  request.keep_alive(false);
  co_await http::async_write(stream, request, asio::use_awaitable);
  boost::beast::flat_buffer buffer;
  http::response_parser<http::empty_body> parser;
  co_await http::async_read_header(stream, buffer, parser, asio::use_awaitable);
  co_return parser.get().result_int();
}

asio::awaitable<unsigned> Ask(asio::io_context& loop, const ProbeTarget& target) {
  tcp::resolver resolver(loop);
  const auto found = resolver.resolve(target.host, std::to_string(target.port));
  tcp::socket socket(loop);
  co_await asio::async_connect(socket, found, asio::use_awaitable);
  if (!target.tls) {
    const unsigned status = co_await Get(socket, target);
    co_return status;
  }
  asio::ssl::context context(asio::ssl::context::tls_client);
  context.set_verify_mode(asio::ssl::verify_none);
  asio::ssl::stream<tcp::socket> stream(std::move(socket), context);
  co_await stream.async_handshake(asio::ssl::stream_base::client, asio::use_awaitable);
  const unsigned status = co_await Get(stream, target);
  co_return status;
}

}  // namespace

absl::Status Probe(const ProbeTarget& target, std::chrono::milliseconds patience) {
  asio::io_context loop(1);
  absl::Status outcome = Unavailable("no answer in time");
  asio::co_spawn(loop, Ask(loop, target),
                 [&outcome, &target](const std::exception_ptr& failure, unsigned status) {
                   if (failure == nullptr) {
                     outcome = status == 200 ? absl::OkStatus()
                                             : Unavailable(absl::StrCat("answers ", status));
                     return;
                   }
                   try {
                     std::rethrow_exception(failure);
                   } catch (const boost::system::system_error& error) {
                     outcome = Unavailable(Why(error.code(), target.tls));
                   } catch (const std::exception& error) {
                     outcome = Unavailable(error.what());
                   }
                 });
  loop.run_for(patience);
  return outcome;
}

}  // namespace tvq::gateway
