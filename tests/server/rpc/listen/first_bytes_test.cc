#include "server/rpc/listen/first_bytes.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace tvq {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

TEST(FirstBytesTest, KnowsThePrefaceWhenItIsWhole) {
  for (size_t size = 0; size < kPreface.size(); ++size) {
    EXPECT_EQ(ProtocolOf(kPreface.substr(0, size), false), Protocol::kUnknown) << size;
  }
  EXPECT_EQ(ProtocolOf(kPreface, false), Protocol::kGrpc);
}

TEST(FirstBytesTest, KnowsATlsHandshakeWhereThereIsTls) {
  EXPECT_EQ(ProtocolOf("", true), Protocol::kUnknown);
  EXPECT_EQ(ProtocolOf("\x16", true), Protocol::kGrpc);
  EXPECT_EQ(ProtocolOf("\x16\x03\x01", true), Protocol::kGrpc);
  EXPECT_EQ(ProtocolOf("\x16\x03\x01", false), Protocol::kOther);
  EXPECT_EQ(ProtocolOf(kPreface, true), Protocol::kOther) << "a client without TLS";
}

TEST(FirstBytesTest, KnowsHttp1ByItsMethod) {
  for (const bool tls : {false, true}) {
    for (const std::string_view request :
         {"GET / HTTP/1.1\r\n", "POST /v1/completions", "PUT /x", "OPTIONS *", "P /"}) {
      EXPECT_EQ(ProtocolOf(request, tls), Protocol::kHttp1) << request;
    }
    EXPECT_EQ(ProtocolOf("PO", tls), Protocol::kUnknown);
    EXPECT_EQ(ProtocolOf("OPTIONS", tls), Protocol::kUnknown);
  }
}

TEST(FirstBytesTest, TakesAllElseForNeither) {
  for (const std::string_view bytes :
       {std::string_view("\0", 1), std::string_view(" GET"), std::string_view("get / HTTP/1.1"),
        std::string_view("SSH-2.0-OpenSSH"), std::string_view("PRI * HTTP/2.1"),
        std::string_view("ABCDEFGHIJKLMNOPQRSTUVWX")}) {
    EXPECT_EQ(ProtocolOf(bytes, false), Protocol::kOther) << bytes;
  }
}

TEST(FirstBytesTest, TellsClientsOfHttp1WhereToGo) {
  const std::string_view answer = AnswerToHttp1();
  const size_t end = answer.find("\r\n\r\n");
  ASSERT_NE(end, std::string_view::npos);
  const std::string_view body = answer.substr(end + 4);
  EXPECT_NE(answer.find("Content-Length: " + std::to_string(body.size()) + "\r\n"),
            std::string_view::npos);
  const auto error = nlohmann::json::parse(body)["error"];
  EXPECT_NE(error["message"].get<std::string>().find("tvq-gateway"), std::string::npos);
}

}  // namespace
}  // namespace tvq
