#include "client/gateway/http/router.h"

#include <gtest/gtest.h>

namespace tvq::gateway {
namespace {

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    for (const auto& [method, pattern] :
         {std::pair("POST", "/v1/sessions/import"), std::pair("GET", "/v1/sessions/{id}"),
          std::pair("DELETE", "/v1/sessions/{id}"), std::pair("POST", "/v1/sessions/{id}/fork"),
          std::pair("DELETE", "/v1/sessions/{id}/marks/{name}")}) {
      router_.Add(method, pattern, nullptr);
    }
  }
  Router router_;
};

TEST_F(RouterTest, FieldsOfThePath) {
  const auto match = router_.Find("DELETE", "/v1/sessions/s1/marks/a%2Fb");
  EXPECT_EQ(match.pattern, "/v1/sessions/{id}/marks/{name}");
  EXPECT_NE(match.handler, nullptr);
  EXPECT_EQ(match.fields.find("id")->second, "s1");
  EXPECT_EQ(match.fields.find("name")->second, "a/b");
  EXPECT_FALSE(match.malformed);
  EXPECT_TRUE(router_.Find("GET", "/v1/sessions/%").malformed);
}

TEST_F(RouterTest, MethodsOfAPath) {
  EXPECT_EQ(router_.Find("PUT", "/v1/sessions/s1").handler, nullptr);
  EXPECT_EQ(router_.Find("PUT", "/v1/sessions/s1").allow, "DELETE, GET, HEAD, OPTIONS");
  EXPECT_NE(router_.Find("HEAD", "/v1/sessions/s1").handler, nullptr);
  EXPECT_EQ(router_.Find("HEAD", "/v1/sessions/s1/fork").handler, nullptr);
  EXPECT_EQ(router_.Find("POST", "/v1/sessions/import").pattern, "/v1/sessions/import");
}

TEST_F(RouterTest, NoSuchPath) {
  for (const char* path : {"", "/", "*", "/v1/sessions/", "/v1/sessions/s1/", "/v1/sessions/s1/x",
                           "//v1/sessions/s1", "/v1"}) {
    EXPECT_EQ(router_.Find("GET", path).pattern, "") << path;
  }
}

}  // namespace
}  // namespace tvq::gateway
