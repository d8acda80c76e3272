#include "client/gateway/http/probe.h"

#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <string>
#include <thread>

namespace tvq::gateway {
namespace {

using boost::asio::ip::tcp;

// What is said of one that takes a connection and ends it after these bytes.
std::string SaidOf(const std::string& bytes, bool tls) {
  boost::asio::io_context loop;
  tcp::acceptor acceptor(loop, tcp::endpoint(boost::asio::ip::make_address("127.0.0.1"), 0));
  std::jthread other([&] {
    tcp::socket socket = acceptor.accept();
    boost::asio::write(socket, boost::asio::buffer(bytes));
    socket.shutdown(tcp::socket::shutdown_send);
    boost::system::error_code ended;
    char ignored[1024];
    while (!ended) socket.read_some(boost::asio::buffer(ignored), ended);
  });
  const absl::Status status = Probe({.host = "127.0.0.1",
                                     .port = acceptor.local_endpoint().port(),
                                     .tls = tls,
                                     .path = "/health"},
                                    std::chrono::seconds(60));
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  return std::string(status.message());
}

TEST(ProbeTest, AnEndWithoutAnAnswerMayHaveOtherReasonsThanWhatIsSpoken) {
  EXPECT_EQ(SaidOf("", false),
            "what listens there ended the connection without an answer: it stops, has no room, or "
            "does not speak HTTP; --ssl-certfile and --ssl-keyfile ask for HTTPS");
  EXPECT_EQ(SaidOf("", true),
            "what listens there ended the connection without an answer: it stops, has no room, or "
            "does not speak HTTPS");
}

TEST(ProbeTest, AnAnswerThatIsNoneIsOfAnotherProtocol) {
  EXPECT_EQ(
      SaidOf("220 mail.example.org\r\n", false),
      "what listens there does not speak HTTP; --ssl-certfile and --ssl-keyfile ask for HTTPS");
  EXPECT_EQ(SaidOf("220 mail.example.org\r\n", true), "what listens there does not speak HTTPS");
}

}  // namespace
}  // namespace tvq::gateway
