#include "server/startup/logs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "base/refusal.h"

namespace tvq {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr MethodInfo kGenerate{"GenerationService/Generate", Permission::kGenerate};

class LogsTest : public testing::Test {
 protected:
  void SetUp(const LogOptions& options) {
    SetUpLogs(options, std::make_shared<spdlog::sinks::ostream_sink_st>(out_));
    log_ = CallLog(options);
  }
  using testing::Test::SetUp;

  void Finish(const absl::Status& status, absl::Duration took) {
    log_({kGenerate, caller_, status, took});
  }

  Caller caller_{.owner = "ana", .request_id = "r-1"};
  std::ostringstream out_;
  CallRecorder::Log log_;
};

TEST_F(LogsTest, JsonLinesAreObjects) {
  SetUp({.level = "debug", .format = "json"});
  spdlog::info("a \"quoted\" word\nand a line \xff\xE2\x80\xA8");
  caller_.request_id = "r\"1\\";
  Finish(absl::OkStatus(), absl::Milliseconds(12));

  std::istringstream lines(out_.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  const auto first = nlohmann::json::parse(line);
  EXPECT_EQ(first["level"], "info");
  EXPECT_EQ(first["message"], "a \"quoted\" word\nand a line \xEF\xBF\xBD\xE2\x80\xA8");
  EXPECT_THAT(line, HasSubstr("\\u2028"));
  EXPECT_THAT(first["time"].get<std::string>(),
              testing::MatchesRegex("....-..-..T..:..:..\\....Z"));
  ASSERT_TRUE(std::getline(lines, line));
  const auto second = nlohmann::json::parse(line);
  EXPECT_EQ(second["level"], "debug");
  EXPECT_EQ(second["message"], "call");
  EXPECT_EQ(second["request_id"], "r\"1\\");
  EXPECT_EQ(second["owner"], "ana");
  EXPECT_EQ(second["method"], "GenerationService/Generate");
  EXPECT_EQ(second["code"], "OK");
  EXPECT_EQ(second["ms"], 12.0);
  EXPECT_FALSE(std::getline(lines, line));
}

TEST_F(LogsTest, TextLineHasTheSame) {
  SetUp({.level = "debug"});
  Finish(Refused(Reason::kModelUnknown, "model", "there is none"), absl::Milliseconds(12));
  for (const char* const word : {"debug", "r-1", "ana", "GenerationService/Generate", "NOT_FOUND",
                                 "12.0 ms", "MODEL_UNKNOWN of model"}) {
    EXPECT_THAT(out_.str(), HasSubstr(word));
  }
}

TEST_F(LogsTest, MessagesOfRefusalsAreKeptOut) {
  for (const char* const format : {"text", "json"}) {
    SetUp({.level = "trace", .format = format});
    Finish(Refused(Reason::kTextInvalid, "text", "\"my prompt\" is too long"), absl::Seconds(1));
  }
  EXPECT_THAT(out_.str(), Not(HasSubstr("my prompt")));
}

TEST_F(LogsTest, OneLineSaysWhyACallWasRefused) {
  caller_.session_id = "s-1";
  const absl::Status refused =
      Refused(Reason::kVersionConflict, "expected_version", "is 3, the session is at version 4");
  SetUp({.level = "info", .format = "json"});
  Finish(refused, absl::Milliseconds(1));
  const auto line = nlohmann::json::parse(out_.str());
  EXPECT_EQ(line["reason"], "VERSION_CONFLICT");
  EXPECT_EQ(line["field"], "expected_version");
  EXPECT_EQ(line["session"], "s-1");
  EXPECT_EQ(line["method"], "GenerationService/Generate");

  out_.str("");
  SetUp({.level = "info", .format = "text"});
  Finish(refused, absl::Milliseconds(1));
  for (const char* const word : {"VERSION_CONFLICT", "expected_version", "\"s-1\"", "r-1"}) {
    EXPECT_THAT(out_.str(), HasSubstr(word));
  }
}

TEST_F(LogsTest, OrdinaryCallsAreQuietAtInfo) {
  SetUp({.level = "info", .slow_call_seconds = 5});
  Finish(absl::OkStatus(), absl::Seconds(5));
  Finish(absl::UnavailableError("draining"), absl::Seconds(5));
  EXPECT_EQ(out_.str(), "");
}

TEST_F(LogsTest, SlowAndBrokenCallsAreNot) {
  SetUp({.level = "info", .format = "json", .slow_call_seconds = 5});
  Finish(absl::OkStatus(), absl::Seconds(6));
  Finish(absl::InternalError("logits are not finite"), absl::Seconds(1));
  std::istringstream lines(out_.str());
  std::string line;
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["level"], "info");
  EXPECT_EQ(nlohmann::json::parse(line)["code"], "OK");
  ASSERT_TRUE(std::getline(lines, line));
  EXPECT_EQ(nlohmann::json::parse(line)["level"], "error");
  EXPECT_EQ(nlohmann::json::parse(line)["error"], "logits are not finite");
}

}  // namespace
}  // namespace tvq
