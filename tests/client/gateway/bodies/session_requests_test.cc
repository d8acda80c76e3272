#include "client/gateway/bodies/session_requests.h"

#include <gtest/gtest.h>

namespace tvq::gateway {
namespace {

TEST(SessionRequestsTest, FractionsOfSecondsAreExactToTheNanosecond) {
  const auto request = ParseCreate(R"({"ttl": 2.3})", "");
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->ttl().seconds(), 2);
  EXPECT_EQ(request->ttl().nanos(), 300'000'000);
}

}  // namespace
}  // namespace tvq::gateway
