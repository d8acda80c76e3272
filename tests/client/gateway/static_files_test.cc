#include "client/gateway/static_files.h"

#include <gtest/gtest.h>

#include <string>

namespace tvq::gateway {
namespace {

std::string ValueOf(const Response& response, std::string_view name) {
  for (const Header& header : response.headers) {
    if (header.name == name) return header.value;
  }
  return "";
}

Response Get(std::string path, std::vector<Header> headers = {}) {
  auto response =
      ServeStatic({.method = "GET", .path = std::move(path), .headers = std::move(headers)});
  return response ? *response : Response{.status = 404};
}

TEST(StaticFilesTest, EveryTextIsCompressedToTheSameBytesByWhateverBuild) {
  int texts = 0;
  for (const StaticFile& file : EmbeddedFiles()) {
    if (file.gzip.empty()) continue;
    ++texts;
    ASSERT_GT(file.gzip.size(), 18u) << file.path;
    EXPECT_EQ(file.gzip.substr(0, 3), "\x1f\x8b\x08") << file.path;
    // Neither name nor time.
    EXPECT_EQ(file.gzip.substr(3, 5), std::string_view("\0\0\0\0\0", 5)) << file.path;
  }
  EXPECT_GE(texts, 5);
}

TEST(StaticFilesTest, EachFormHasATagOfItsOwn) {
  const Response plain = Get("/");
  const Response small = Get("/", {{"Accept-Encoding", "gzip"}});
  EXPECT_EQ(ValueOf(plain, "Content-Encoding"), "");
  EXPECT_EQ(ValueOf(small, "Content-Encoding"), "gzip");
  EXPECT_LT(small.body.size(), plain.body.size());
  EXPECT_NE(ValueOf(plain, "ETag"), ValueOf(small, "ETag"));
  for (const Response& response : {plain, small})
    EXPECT_EQ(ValueOf(response, "Vary"), "Accept-Encoding");
  const auto again = [](const Response& known, const char* encoding) {
    return Get("/", {{"If-None-Match", ValueOf(known, "ETag")}, {"Accept-Encoding", encoding}})
        .status;
  };
  EXPECT_EQ(again(plain, "identity"), 304);
  EXPECT_EQ(again(small, "gzip"), 304);
  EXPECT_EQ(again(plain, "gzip"), 200);
  EXPECT_EQ(again(small, "identity"), 200);
  EXPECT_EQ(Get("/nothing").status, 404);
}

TEST(StaticFilesTest, WhatIsCompressedAlreadyIsSentAsItIs) {
  for (const StaticFile& file : EmbeddedFiles()) {
    if (!file.path.ends_with(".woff2")) continue;
    const Response font = Get("/" + std::string(file.path), {{"Accept-Encoding", "gzip"}});
    EXPECT_EQ(font.body, file.content);
    EXPECT_EQ(ValueOf(font, "Vary"), "");
  }
}

}  // namespace
}  // namespace tvq::gateway
