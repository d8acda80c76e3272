// No framing of TCP breaks a request: a connection serves the same requests in whatever pieces
// their bytes come.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/gateway/http/connection.h"

namespace tvq::gateway {
namespace {

using Pieces = std::vector<std::string_view>;

// Each read has bytes of one piece; behind the last the other side has ended. What is written is
// lost.
class PieceTransport final : public Transport {
 public:
  PieceTransport(asio::any_io_executor executor, const Pieces& pieces)
      : executor_(std::move(executor)), pieces_(pieces) {}

  asio::awaitable<ErrorCode> Handshake() override { co_return ErrorCode(); }
  void ReadSome(asio::mutable_buffer buffer, OnRead done) override {
    while (next_ < pieces_.size() && pieces_[next_].size() == begin_) {
      ++next_;
      begin_ = 0;
    }
    size_t bytes = 0;
    ErrorCode error = asio::error::eof;
    if (next_ < pieces_.size()) {
      bytes = std::min(buffer.size(), pieces_[next_].size() - begin_);
      std::memcpy(buffer.data(), pieces_[next_].data() + begin_, bytes);
      begin_ += bytes;
      error.clear();
    }
    asio::post(executor_, [done = std::move(done), error, bytes]() mutable { done(error, bytes); });
  }
  size_t WriteNow(asio::const_buffer bytes) override { return bytes.size(); }
  asio::awaitable<ErrorCode> Write(asio::const_buffer) override { co_return ErrorCode(); }
  void HalfClose() override {}
  asio::awaitable<void> Finish() override { co_return; }
  bool OtherSideEnded() override { return false; }
  void Cancel() override {}
  void Close() override {}
  void Reset() override {}

 private:
  const asio::any_io_executor executor_;
  const Pieces& pieces_;
  size_t next_ = 0;
  size_t begin_ = 0;  // of what was not read of that piece
};

// What a connection makes of the pieces: each request with its body, and the status of what it
// refuses.
std::vector<std::string> Served(const Pieces& pieces) {
  std::vector<std::string> served;
  const auto handler = [&served](Exchange& exchange) -> asio::awaitable<void> {
    const Request request = exchange.request();
    std::string text = absl::StrCat(request.method, " ", request.path, "?", request.query);
    for (const Header& header : request.headers) {
      absl::StrAppend(&text, "\n", header.name, ": ", header.value);
    }
    const absl::StatusOr<std::string> body = co_await exchange.ReadPiece(size_t{1} << 20);
    served.push_back(absl::StrCat(text, "\n\n", body.ok() ? *body : body.status().ToString()));
    Response response;
    co_await exchange.Respond(std::move(response));
  };
  asio::io_context loop{1};
  const HttpLimits limits;
  const ConnectionHooks hooks = {.handler = handler,
                                 .error =
                                     [&served](int status, std::string_view) {
                                       served.push_back(absl::StrCat("refused: ", status));
                                       return Response{.status = status};
                                     },
                                 .finished = [](const FinishedRequest&) {}};
  BodyBudget budget(size_t{1} << 30);
  const auto connection = std::make_shared<Connection>(
      std::make_unique<PieceTransport>(loop.get_executor(), pieces), loop.get_executor(), limits,
      hooks, budget, std::make_shared<Peer>());
  asio::co_spawn(loop, connection->Run(), asio::detached);
  loop.run();
  return served;
}

constexpr std::string_view kNext = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n";

// One of each kind that clients send, and what is no request.
const std::vector<std::string>& Requests() {
  static const auto& requests = *new std::vector<std::string>{
      "GET /version HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
      "HEAD /v1/models/a%20b?include=all&x=%41 HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\n",
      "DELETE /v1/sessions/0123456789abcdef HTTP/1.1\r\nHost: h\r\n"
      "Authorization: Bearer key\r\nIdempotency-Key: once\r\n\r\n",
      "OPTIONS * HTTP/1.1\r\nHost: h\r\nOrigin: https://example.org\r\n\r\n",
      "GET http://other:8000/health?a=b HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 40\r\n\r\n"
      "{\"prompt\": \"Once\\r\\n\\r\\n\", \r\n\r\n\"n\": 1}\r\n",
      "POST /v1/sessions HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 2\r\n"
      "\r\n{}",
      "POST /v1/sessions/import?model=m HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3\r\nabc\r\nA;x=\"y\"\r\n\r\n01234\r\n\n\r\n0\r\nTrailer: t\r\n\r\n",
      "POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
      "\r\n\n\rGET /after-empty-lines HTTP/1.1\r\nHost: h\r\n\r\n",
      "GET /folded HTTP/1.1\r\nHost: h\r\nX: one\r\n two\r\nY:\r\n\r\n",
      "GET /old HTTP/1.0\r\nConnection: keep-alive\r\nHost: h\r\n\r\n",
      "nonsense\r\n\r\n",
      "GET / HTTP/1.1\nHost: h\n\n",
      "GET / HTTP/1.1\r\nHost: h\r\n\n",
      "GET / HTTP/1.1\r\nHost: h\r\nA b\r\n\r\n",
      "GET / HTTP/2.0\r\n\r\n",
      "GET / HTTP\r\n\r\n",
      "\x16\x03\x01 no text",
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
      "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
  };
  return requests;
}

TEST(PiecesTest, RequestsCutAtEveryByte) {
  for (const std::string& request : Requests()) {
    const std::string bytes = request + std::string(kNext);
    const std::string_view all = bytes;
    const std::vector<std::string> whole = Served({all});
    ASSERT_FALSE(whole.empty()) << request;
    for (size_t cut = 1; cut < all.size(); ++cut) {
      ASSERT_EQ(Served({all.substr(0, cut), all.substr(cut)}), whole) << cut << ": " << request;
    }
    Pieces single;
    for (size_t at = 0; at < all.size(); ++at) single.push_back(all.substr(at, 1));
    ASSERT_EQ(Served(single), whole) << request;
  }
}

// Those that are requests are served, and so is what comes behind them.
TEST(PiecesTest, RequestsBehindOneAnother) {
  std::string bytes;
  size_t count = 0;
  for (const std::string& request : Requests()) {
    if (request.starts_with("nonsense")) break;
    bytes += request;
    ++count;
  }
  const std::vector<std::string> served = Served({bytes});
  ASSERT_EQ(served.size(), count);
  for (const std::string& one : served)
    EXPECT_THAT(one, testing::Not(testing::HasSubstr("refuse")));
  EXPECT_THAT(served[5],
              testing::EndsWith("\n\n{\"prompt\": \"Once\\r\\n\\r\\n\", \r\n\r\n\"n\": 1}\r\n"));
  EXPECT_THAT(served[8], testing::EndsWith("\n\nabc\r\n01234\r\n\n"));
}

// Reads end anywhere in them, just before their last byte, too.
TEST(PiecesTest, HeadersOfAllLengths) {
  const std::string begin = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nX: ";
  const std::string body = "\n\r\nG";
  for (size_t length = begin.size() + 4; length <= 6000; ++length) {
    const std::string value(length - begin.size() - 4, 'x');
    const std::string bytes = absl::StrCat(begin, value, "\r\n\r\n", body, std::string(kNext));
    const std::string_view all = bytes;
    for (const size_t cut : {size_t{0}, length - 1}) {
      const std::vector<std::string> served = Served({all.substr(0, cut), all.substr(cut)});
      ASSERT_EQ(served.size(), 2) << length;
      ASSERT_EQ(served[0],
                absl::StrCat("POST /?\nHost: h\nContent-Length: 4\nX: ", value, "\n\n", body))
          << length;
    }
  }
}

TEST(PiecesTest, PipelinedByTheThousand) {
  std::mt19937 random(1);
  std::vector<std::string> alone;
  for (const std::string& request : Requests()) {
    if (request.starts_with("nonsense")) break;
    alone.push_back(Served({request}).front());
  }
  for (const size_t largest : {1, 100, 2048, 5000, 1'000'000}) {
    std::string bytes;
    std::vector<size_t> order;
    for (int i = 0; i < 3000; ++i) {
      order.push_back(random() % alone.size());
      bytes += Requests()[order.back()];
    }
    Pieces pieces;
    for (size_t at = 0; at < bytes.size();) {
      const size_t size = 1 + random() % largest;
      pieces.push_back(std::string_view(bytes).substr(at, size));
      at += size;
    }
    const std::vector<std::string> served = Served(pieces);
    ASSERT_EQ(served.size(), order.size()) << largest;
    for (size_t i = 0; i < order.size(); ++i) {
      ASSERT_EQ(served[i], alone[order[i]]) << largest << ": " << i;
    }
  }
}

}  // namespace
}  // namespace tvq::gateway
