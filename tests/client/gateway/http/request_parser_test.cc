#include "client/gateway/http/request_parser.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace tvq::gateway {
namespace {

using Result = RequestParser::Result;

// Feeds the header in pieces of `step` bytes; the bytes behind it stay in `rest`.
Result ReadHeader(RequestParser& parser, const std::string& bytes, size_t step, std::string* rest) {
  std::string unread;
  for (size_t at = 0; at < bytes.size(); at += step) {
    unread += bytes.substr(at, step);
    size_t consumed = 0;
    const Result result = parser.ParseHeader(unread, &consumed);
    unread.erase(0, consumed);
    if (result == Result::kMore) continue;
    *rest = unread + bytes.substr(std::min(bytes.size(), at + step));
    return result;
  }
  return Result::kMore;
}

std::string Body(RequestParser& parser, std::string bytes, size_t room) {
  std::string body, piece(room, '\0');
  while (!parser.body_done()) {
    size_t consumed = 0, written = 0;
    const Result result = parser.ParseBody(bytes, &consumed, piece.data(), room, &written);
    body.append(piece, 0, written);
    bytes.erase(0, consumed);
    // Nothing more will come.
    if (result == Result::kBad || result == Result::kMore) return body + "!";
  }
  return body + "|" + bytes;
}

TEST(RequestParserTest, AnyPieces) {
  const std::string bytes =
      "POST /a/b?c=d HTTP/1.1\r\nHost: h\r\nX-Two:  spaced \r\nContent-Length: 5\r\n\r\nhelloGET";
  for (const size_t step : {1, 2, 7, 1000}) {
    for (const size_t room : {1, 3, 100}) {
      RequestParser parser(1000);
      std::string rest;
      ASSERT_EQ(ReadHeader(parser, bytes, step, &rest), Result::kDone);
      const Request request = parser.TakeRequest();
      EXPECT_EQ(request.method, "POST");
      EXPECT_EQ(request.path, "/a/b");
      EXPECT_EQ(request.query, "c=d");
      EXPECT_EQ(request.Find("x-two"), "spaced");
      EXPECT_EQ(parser.content_length(), 5);
      EXPECT_TRUE(parser.keep_alive());
      EXPECT_FALSE(parser.body_done());
      EXPECT_EQ(Body(parser, rest, room), "hello|GET");
    }
  }
}

TEST(RequestParserTest, Chunks) {
  RequestParser parser(1000);
  std::string rest;
  ASSERT_EQ(ReadHeader(parser,
                       "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding:  Chunked \r\n\r\n"
                       "3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\nGET",
                       1000, &rest),
            Result::kDone);
  EXPECT_EQ(parser.content_length(), std::nullopt);
  EXPECT_EQ(Body(parser, rest, 4), "abc0123456789|GET");
}

TEST(RequestParserTest, EndOfTheChunksInPieces) {
  for (const std::string end : {"0\r\n\r\n", "1\r\nx\r\n0;a=b\r\nTrailer: t\r\n\r\n"}) {
    RequestParser parser(1000);
    std::string rest, unread, body;
    ASSERT_EQ(
        ReadHeader(parser, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 1000, &rest),
        Result::kDone);
    for (const char byte : end) {
      EXPECT_FALSE(parser.body_done());
      unread += byte;
      char piece[100];
      size_t consumed = 0, written = 0;
      const auto result = parser.ParseBody(unread, &consumed, piece, sizeof(piece), &written);
      EXPECT_NE(result, Result::kBad);
      unread.erase(0, consumed);
      body.append(piece, written);
    }
    EXPECT_TRUE(parser.body_done());
    EXPECT_EQ(body, end.size() > 5 ? "x" : "");
  }
}

// A limit for each, in whatever pieces they come; Beast alone waits for their end for ever.
TEST(RequestParserTest, LimitOfChunkHeadersAndTrailers) {
  std::string fields;
  for (int i = 0; i < 300; ++i) fields += "T: t\r\n";
  for (const auto& [bytes, fits] : std::vector<std::pair<std::string, bool>>{
           {"1;" + std::string(900, 'x') + "\r\na\r\n1;" + std::string(900, 'x') +
                "\r\na\r\n0\r\n\r\n",
            true},
           {"1;" + std::string(1100, 'x') + "\r\na\r\n0\r\n\r\n", false},
           {"1\r\na\r\n0;" + std::string(1100, 'x') + "\r\n\r\n", false},
           {"1\r\na\r\n0\r\nT: " + std::string(1100, 'x') + "\r\n\r\n", false},
           {"1\r\na\r\n0\r\n" + fields + "\r\n", false},
           {"1\r\na\r\n0\r\n" + fields.substr(0, 6 * 100) + "\r\n", true}}) {
    for (const size_t step : {1, 100, 10'000}) {
      RequestParser parser(1000);
      std::string rest, unread;
      ASSERT_EQ(
          ReadHeader(parser, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 1000, &rest),
          Result::kDone);
      auto result = Result::kMore;
      for (size_t at = 0; at < bytes.size() && result == Result::kMore; at += step) {
        unread += bytes.substr(at, step);
        result = Result::kFull;
        while (result == Result::kFull) {
          char piece[100];
          size_t consumed = 0, written = 0;
          result = parser.ParseBody(unread, &consumed, piece, sizeof(piece), &written);
          unread.erase(0, consumed);
        }
        if (result == Result::kMore) {
          EXPECT_LE(unread.size(), 1000);
        }
      }
      EXPECT_EQ(result, fits ? Result::kDone : Result::kTooLarge) << step << ": " << bytes;
    }
  }
}

// At once, though no body ends in so few bytes.
TEST(RequestParserTest, RefusesWhatIsNoChunk) {
  RequestParser parser(1000);
  std::string rest;
  ASSERT_EQ(
      ReadHeader(parser, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 1000, &rest),
      Result::kDone);
  char piece[100];
  size_t consumed = 0, written = 0;
  EXPECT_EQ(parser.ParseBody("zz\r\n", &consumed, piece, sizeof(piece), &written), Result::kBad);
}

TEST(RequestParserTest, NoBody) {
  RequestParser parser(1000);
  std::string rest;
  ASSERT_EQ(ReadHeader(parser, "GET / HTTP/1.0\r\n\r\nGET", 1000, &rest), Result::kDone);
  EXPECT_TRUE(parser.body_done());
  EXPECT_FALSE(parser.keep_alive());
  EXPECT_TRUE(parser.TakeRequest().http10);
  EXPECT_EQ(rest, "GET");
}

// A proxy in front might see another end of the body than this parser.
TEST(RequestParserTest, RefusesWhatCouldBeReadInTwoWays) {
  for (const char* headers :
       {"Content-Length: 5\r\nContent-Length: 6\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "Content-Length: -5\r\n",
        "Content-Length: 5x\r\n", "Content-Length : 5\r\n", "A: b\r\n continued\n",
        "Content-Length: 99999999999999999999999\r\n", "A b: c\r\n", "A: \x01\r\n",
        "Transfer-Encoding: xchunked\r\n", "Transfer-Encoding: gzip\r\n",
        "Transfer-Encoding: chunked, identity\r\n", "Transfer-Encoding: gzip, chunked\r\n",
        "Transfer-Encoding: \r\n", "Transfer-Encoding: xchunked\r\nContent-Length: 5\r\n",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"}) {
    RequestParser parser(1000);
    std::string rest;
    EXPECT_EQ(ReadHeader(parser, std::string("POST / HTTP/1.1\r\nHost: h\r\n") + headers + "\r\n",
                         1000, &rest),
              Result::kBad)
        << headers;
  }
  RequestParser old(1000);
  std::string rest;
  EXPECT_EQ(ReadHeader(old, "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 1000, &rest),
            Result::kBad);
  for (const char* line :
       {"GET /", "GET / HTTP/2.0", "GET  HTTP/1.1", "\x16\x03\x01", "G@T / HTTP/1.1"}) {
    RequestParser parser(1000);
    std::string rest;
    EXPECT_EQ(ReadHeader(parser, std::string(line) + "\r\n\r\n", 1000, &rest), Result::kBad)
        << line;
  }
}

TEST(RequestParserTest, TargetThatIsAWholeAddress) {
  for (const auto& [target, host, path, query] : std::vector<std::array<std::string, 4>>{
           {"http://host/health", "host", "/health", ""},
           {"HTTPS://host:8000/a/b?c=http://d", "host:8000", "/a/b", "c=http://d"},
           {"http://host", "host", "/", ""},
           {"http://host?a=b/c", "host", "/", "a=b/c"},
           {"/http://host/", "other", "/http://host/", ""},
           {"*", "other", "*", ""}}) {
    RequestParser parser(1000);
    std::string rest;
    ASSERT_EQ(ReadHeader(parser, "GET " + target + " HTTP/1.1\r\nHost: other\r\n\r\n", 1000, &rest),
              Result::kDone);
    const Request request = parser.TakeRequest();
    EXPECT_EQ(request.Find("host"), host);
    EXPECT_EQ(request.path, path);
    EXPECT_EQ(request.query, query);
  }
}

// Of all its lines together, in whatever pieces they come, and of what has no line at all. Beast
// alone has a limit for what it is given at once.
TEST(RequestParserTest, LimitOfTheHeaderInPieces) {
  const auto of_length = [](size_t length) {
    std::string fields;
    while (fields.size() + 100 < length) fields += "A: bcd\r\n";
    const std::string around = "GET / HTTP/1.1\r\n" + fields + "\r\n";
    return "GET /" + std::string(length - around.size(), 'x') + around.substr(5);
  };
  for (const size_t step : {1, 8, 100, 10'000}) {
    for (const auto& [header, result] :
         std::vector<std::pair<std::string, Result>>{{of_length(1002), Result::kDone},
                                                     {of_length(1003), Result::kTooLarge},
                                                     {of_length(8002), Result::kTooLarge},
                                                     {std::string(1002, 'x'), Result::kTooLarge}}) {
      RequestParser parser(1002);
      std::string rest;
      EXPECT_EQ(ReadHeader(parser, header, step, &rest), result) << header.size() << " by " << step;
    }
  }
}

// Each is an object in memory: 4,000 of a header of 16 KiB took 600 kB.
TEST(RequestParserTest, LimitOfTheHeadersLines) {
  for (const size_t fields : {RequestParser::kMaxHeaderLines - 1, RequestParser::kMaxHeaderLines}) {
    std::string header = "GET / HTTP/1.1\r\n";
    for (size_t i = 0; i < fields; ++i) header += "a:\r\n";
    for (const size_t step : {1, 10'000}) {
      RequestParser parser(100'000);
      std::string rest;
      EXPECT_EQ(ReadHeader(parser, header + "\r\n", step, &rest),
                fields < RequestParser::kMaxHeaderLines ? Result::kDone : Result::kTooLarge);
    }
  }
}

TEST(RequestParserTest, LimitOfTheHeader) {
  RequestParser parser(1000);
  std::string rest;
  EXPECT_EQ(
      ReadHeader(parser, "GET / HTTP/1.1\r\nA: " + std::string(2000, 'x') + "\r\n\r\n", 100, &rest),
      Result::kTooLarge);
}

}  // namespace
}  // namespace tvq::gateway
