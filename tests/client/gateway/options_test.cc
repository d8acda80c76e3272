#include "client/gateway/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tvq::gateway {
namespace {

using ::testing::StartsWith;

// What is said to a command line that is refused.
std::string Complaint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tvq-gateway");
  std::vector<char*> argv;
  argv.reserve(arguments.size());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  ::testing::internal::CaptureStderr();
  int exit_code = -1;
  EXPECT_FALSE(ParseOptions(static_cast<int>(argv.size()), argv.data(), &exit_code));
  EXPECT_EQ(exit_code, 2);
  return ::testing::internal::GetCapturedStderr();
}

TEST(OptionsTest, WhatIsNoNumberIsRefusedByName) {
  for (const std::string flag : {"--port", "--max-connections", "--max-body-bytes",
                                 "--idle-timeout", "--shutdown-timeout", "--server-connections"}) {
    EXPECT_THAT(Complaint({flag, ""}), StartsWith(flag + ": it is empty, must be a number"));
    EXPECT_THAT(Complaint({flag, "many"}), StartsWith(flag + ": "));
    EXPECT_THAT(Complaint({flag, "-1"}), StartsWith(flag + ": "));
  }
}

TEST(OptionsTest, AddressesAndOriginsThatNobodyHasAreRefusedByName) {
  EXPECT_THAT(Complaint({"--host", ""}), StartsWith("--host: it is empty"));
  EXPECT_THAT(Complaint({"--server", "a b"}),
              StartsWith("--server: \"a b\" is no address of a server, must be HOST:PORT"));
  EXPECT_THAT(Complaint({"--allowed-origins", "https://a.example,b.example"}),
              StartsWith("--allowed-origins: \"b.example\" is no origin, must be SCHEME://HOST"));
  EXPECT_THAT(Complaint({"--server-ssl-certfile", "a"}),
              StartsWith("--server-ssl-certfile requires --server-ssl-keyfile"));
}

// What is left of both limits.
std::pair<int, int> Fitted(int descriptors, int all, int per_address) {
  HttpLimits limits;
  limits.max_connections = all;
  limits.max_connections_per_address = per_address;
  FitToDescriptors(descriptors, &limits);
  return {limits.max_connections, limits.max_connections_per_address};
}

TEST(OptionsTest, ConnectionsFitTheDescriptors) {
  EXPECT_EQ(Fitted(1 << 20, 20'000, 10'000), std::pair(20'000, 10'000));
  EXPECT_EQ(Fitted(1024, 20'000, 10'000), std::pair(768, 384));
  EXPECT_EQ(Fitted(1024, 20'000, 20'000), std::pair(768, 768)) << "a proxy is the only address";
  EXPECT_EQ(Fitted(1024, 20'000, 100), std::pair(768, 100));
  EXPECT_EQ(Fitted(1024, 20'000, 1000), std::pair(768, 384));
  EXPECT_EQ(Fitted(1024, 500, 500), std::pair(500, 500));
  EXPECT_EQ(Fitted(256, 20'000, 10'000), std::pair(128, 64));
  EXPECT_EQ(Fitted(1, 20'000, 10'000), std::pair(1, 1));
  EXPECT_EQ(Fitted(std::numeric_limits<int>::max(), 20'000, 10'000), std::pair(20'000, 10'000));
}

}  // namespace
}  // namespace tvq::gateway
