#include "server/startup/flags.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace tvq {
namespace {

std::optional<Flags> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"tvq-server", "--model", "m=dir"});
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int exit_code = 0;
  return ParseFlags(static_cast<int>(argv.size()), argv.data(), &exit_code);
}

std::optional<bool> KeepsTranscripts(const std::vector<std::string>& arguments) {
  const auto flags = Parse(arguments);
  if (!flags) return std::nullopt;
  return flags->sessions.options.keep_transcript;
}

TEST(FlagsTest, TranscriptsAreASwitch) {
  EXPECT_EQ(KeepsTranscripts({}), true);
  EXPECT_EQ(KeepsTranscripts({"--session-transcripts"}), true);
  EXPECT_EQ(KeepsTranscripts({"--no-session-transcripts"}), false);
  EXPECT_EQ(KeepsTranscripts({"--session-transcripts=false"}), false);
  EXPECT_EQ(KeepsTranscripts({"--session-transcripts", "maybe"}), std::nullopt);
}

TEST(FlagsTest, TheEnvironmentTurnsTranscriptsOff) {
  ASSERT_EQ(setenv("TVQ_SESSION_TRANSCRIPTS", "false", /*overwrite=*/1), 0);
  EXPECT_EQ(KeepsTranscripts({}), false);
  EXPECT_EQ(KeepsTranscripts({"--session-transcripts"}), true) << "flags win";
  ASSERT_EQ(unsetenv("TVQ_SESSION_TRANSCRIPTS"), 0);
}

}  // namespace
}  // namespace tvq
