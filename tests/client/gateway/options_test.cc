#include "client/gateway/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
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

}  // namespace
}  // namespace tvq::gateway
