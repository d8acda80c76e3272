#include "client/loadtest/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tvq::loadtest {
namespace {

TEST(Options, Rates) {
  const auto rates = ParseRates("5,0..20,7.5");
  ASSERT_TRUE(rates.ok());
  ASSERT_EQ(rates->size(), 3);
  EXPECT_EQ((*rates)[1].begin, 0);
  EXPECT_EQ((*rates)[1].end, 20);
  EXPECT_EQ((*rates)[2].mean(), 7.5);
  for (const char* text :
       {"", "0", "-1", "x", "5,", "1..", "..5", "1..2..3", "nan", "inf", "2000000"}) {
    EXPECT_FALSE(ParseRates(text).ok()) << text;
  }
}

TEST(Options, Users) {
  EXPECT_EQ(*ParseUsers("1,8,1000"), (std::vector<int64_t>{1, 8, 1000}));
  for (const char* text : {"", "0", "-1", "1.5", "1,,2", "50001"}) {
    EXPECT_FALSE(ParseUsers(text).ok()) << text;
  }
}

TEST(Options, MaxErrors) {
  EXPECT_EQ(ParseMaxErrors("3")->count, 3);
  EXPECT_DOUBLE_EQ(*ParseMaxErrors("2.5%")->fraction, 0.025);
  for (const char* text : {"", "-1", "101%", "%", "1.5"})
    EXPECT_FALSE(ParseMaxErrors(text).ok()) << text;
}

// Parses a command line that must fail, and returns what it says.
std::string Complaint(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tvq-loadtest");
  std::vector<char*> argv;
  argv.reserve(arguments.size());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  testing::internal::CaptureStderr();
  int exit_code = -1;
  EXPECT_FALSE(ParseOptions(static_cast<int>(argv.size()), argv.data(), &exit_code));
  EXPECT_EQ(exit_code, 2);
  return testing::internal::GetCapturedStderr();
}

TEST(Options, BadInputIsNamed) {
  using testing::HasSubstr;
  EXPECT_THAT(Complaint({"--rate", "5"}), HasSubstr("--grpc"));
  EXPECT_THAT(Complaint({"--grpc", "localhost:1"}), HasSubstr("--concurrency"));
  EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", "--concurrency", "2"}),
              HasSubstr("--concurrency"));
  EXPECT_THAT(Complaint({"--grpc", "10.0.0.1:1", "--rate", "5"}), HasSubstr("--allow-remote"));
  EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "x"}), HasSubstr("--rate: \"x\""));
  EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", "--output-tokens", "uniform:9,1"}),
              HasSubstr("--output-tokens: \"uniform:9,1\""));
  EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", "--max-errors", "x"}),
              HasSubstr("--max-errors: \"x\""));
  EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", "--duration", "0"}),
              HasSubstr("--duration"));
  EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", "--duration", "-1"}),
              HasSubstr("--duration"));
  for (const char* flag :
       {"--duration", "--warm-up", "--grace", "--timeout", "--think", "--cancels", "--slow-readers",
        "--read-pause", "--slo-ttft", "--temperature"}) {
    for (const char* value : {"nan", "inf", "-1", "1e9"}) {
      EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", flag, value}),
                  HasSubstr(std::string(flag) + ": " + value))
          << flag;
    }
  }
  for (const char* flag : {"--seed", "--connections", "--duration", "--cancels", "--retries"}) {
    EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", flag, ""}),
                HasSubstr(std::string(flag) + ": it is empty, must be a number"));
  }
  EXPECT_THAT(Complaint({"--grpc", "localhost:1", "--rate", "5", "--api-key", "@/nowhere"}),
              HasSubstr("--api-key"));
}

}  // namespace
}  // namespace tvq::loadtest
