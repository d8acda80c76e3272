#include "client/gateway/http/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tvq::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(MessageTest, PercentDecode) {
  std::string out;
  EXPECT_TRUE(PercentDecode("a%41%2f+", false, &out));
  EXPECT_EQ(out, "aA/+");
  EXPECT_TRUE(PercentDecode("a+b", true, &out));
  EXPECT_EQ(out, "a b");
  for (const char* bad : {"%", "%4", "a%zz", "%4g"}) EXPECT_FALSE(PercentDecode(bad, false, &out));
}

TEST(MessageTest, Query) {
  QueryFields fields;
  EXPECT_TRUE(ParseQuery("a=1&b&&c=%26+x&a=2", &fields));
  EXPECT_THAT(fields, ElementsAre(Pair("a", "1"), Pair("b", ""), Pair("c", "& x"), Pair("a", "2")));
  EXPECT_FALSE(ParseQuery("a=%", &fields));
}

TEST(MessageTest, HeadersInAnyCase) {
  const Request request{.headers = {{"X-One", "1"}, {"x-one", "2"}}};
  EXPECT_EQ(request.Find("x-ONE"), "1");
  EXPECT_EQ(request.Count("X-one"), 2);
  EXPECT_EQ(request.Find("x-two"), "");
}

}  // namespace
}  // namespace tvq::gateway
