#include "base/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

namespace tvq::flags {
namespace {

// What a program says on stderr to this command line; "" if it takes it.
std::string Complaint(const Program& program, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  testing::internal::CaptureStderr();
  const std::optional<int> ends =
      program.Parse(static_cast<int>(arguments.size()), arguments.data());
  const std::string told = testing::internal::GetCapturedStderr();
  EXPECT_EQ(ends, told.empty() ? std::nullopt : std::optional(Program::kUsageError));
  return told.substr(0, told.find('\n'));
}

TEST(FlagsTest, AnEmptyNumberIsRefused) {
  int integer = 1;
  uint64_t natural = 1;
  std::optional<double> fraction;
  std::vector<int> list;
  int64_t bytes = 1;
  double seconds = 1;
  int ranged = 1;
  std::string text = "text";
  const Program app("", "program");
  app.Add("--integer", integer, "");
  app.Add("--natural", natural, "");
  app.Add("--list", list, "").SplitAt(',');
  app.Add("--ranged", ranged, "").Within(0, 9);
  app.AddSetting("--text", text, "");
  app.AddSizeSetting("--bytes", bytes, "");
  const Command command = app.AddCommand("command", "");
  command.Add("--fraction", fraction, "");
  command.Add("--seconds", seconds, "").TypeName("SECONDS");

  for (const char* flag : {"--integer", "--natural", "--list", "--ranged", "--bytes"}) {
    EXPECT_EQ(Complaint(app, {flag, ""}), std::string(flag) + ": it is empty, must be a number");
    EXPECT_EQ(Complaint(app, {flag, "3"}), "");
  }
  for (const char* flag : {"--fraction", "--seconds"}) {
    EXPECT_EQ(Complaint(app, {"command", flag, ""}),
              std::string(flag) + ": it is empty, must be a number");
    EXPECT_EQ(Complaint(app, {"command", flag, "0.5"}), "");
  }
  EXPECT_EQ(Complaint(app, {"--ranged", "12"}),
            "--ranged: 12 is out of range, must be from 0 to 9");
  EXPECT_EQ(Complaint(app, {"--text", ""}), "");
  EXPECT_EQ(text, "");
}

TEST(FlagsTest, AFractionOutsideItsRangeIsNamedWithTheRange) {
  double seconds = 1;
  const Program app("", "program");
  app.AddSetting("--some-seconds", seconds, "").Within(0.001, 1e10);
  for (const std::string text : {"0", "-1", "1e11", "nan"}) {
    EXPECT_EQ(Complaint(app, {"--some-seconds", text.c_str()}),
              "--some-seconds: " + text + " is out of range, must be from 0.001 to 1e+10");
  }
  EXPECT_EQ(Complaint(app, {"--some-seconds", "soon"}), "--some-seconds: soon is no number");
}

TEST(FlagsTest, AnOptionHasOneValue) {
  int port = 1;
  const Program app("", "program");
  app.AddSetting("--port", port, "").Within(0, 65535);
  EXPECT_EQ(Complaint(app, {"--port"}), "--port: its value is missing");
  EXPECT_EQ(Complaint(app, {"--port", "1", "--port", "2"}),
            "--port: is given 2 times, must be given once");
}

TEST(FlagsTest, ANumberOfBytesMayHaveAUnit) {
  int64_t bytes = 1;
  const Program app("", "program");
  app.AddSizeSetting("--bytes", bytes, "");
  EXPECT_EQ(Complaint(app, {"--bytes", "010 KB"}), "");
  EXPECT_EQ(bytes, 10 << 10);
  for (const std::string text : {"10xb", "1.5GB", "1e9", "-1", " ", "many"}) {
    EXPECT_EQ(Complaint(app, {"--bytes", text.c_str()}),
              "--bytes: " + text + " is no number of bytes, such as 1000000, 512MB or 2GB");
  }
}

TEST(FlagsTest, AnEmptyTextIsRefusedWhereOneMustBe) {
  std::string host = "here";
  const Program app("", "program");
  app.AddSetting("--host", host, "").NotEmpty();
  EXPECT_EQ(Complaint(app, {"--host", ""}), "--host: it is empty");
}

TEST(FlagsTest, AnEmptyVariableIsNoValue) {
  int64_t bytes = 7;
  const Program app("", "program");
  app.AddSizeSetting("--some-bytes", bytes, "");
  ASSERT_EQ(setenv("TVQ_SOME_BYTES", "", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "");
  EXPECT_EQ(bytes, 7);
  ASSERT_EQ(setenv("TVQ_SOME_BYTES", "2KB", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "");
  EXPECT_EQ(bytes, 2048);
  EXPECT_EQ(Complaint(app, {"--some-bytes", "3"}), "");
  EXPECT_EQ(bytes, 3) << "flags win";
  ASSERT_EQ(unsetenv("TVQ_SOME_BYTES"), 0);
}

TEST(FlagsTest, AWrongVariableIsNamedAsWhatItIs) {
  int port = 1;
  bool tls = false;
  const Program app("", "program");
  app.AddSetting("--port", port, "").Within(0, 65535);
  app.AddSwitchSetting("--tls", tls, "");
  ASSERT_EQ(setenv("TVQ_PORT", "many", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "TVQ_PORT: many is no whole number");
  EXPECT_EQ(Complaint(app, {"--port", "few"}), "--port: few is no whole number");
  EXPECT_EQ(Complaint(app, {"--port=few"}), "--port: few is no whole number");
  ASSERT_EQ(setenv("TVQ_PORT", "70000", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "TVQ_PORT: 70000 is out of range, must be from 0 to 65535");
  ASSERT_EQ(setenv("TVQ_PORT", "tcp://10.0.0.1:50051", /*overwrite=*/1), 0);
  EXPECT_EQ(
      Complaint(app, {}),
      "TVQ_PORT: tcp://10.0.0.1:50051 is no whole number. Kubernetes sets it for a service of "
      "that name: give --port, or set enableServiceLinks: false in the pod's spec, or name "
      "the service otherwise");
  EXPECT_EQ(Complaint(app, {"--port", "3"}), "");
  ASSERT_EQ(unsetenv("TVQ_PORT"), 0);
  EXPECT_EQ(Complaint(app, {"--tls=maybe"}), "--tls: maybe is neither true nor false");
  ASSERT_EQ(setenv("TVQ_TLS", "maybe", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "TVQ_TLS: maybe is neither true nor false");
  for (const char* text : {"true", "1", "on", "YES"}) {
    ASSERT_EQ(setenv("TVQ_TLS", text, /*overwrite=*/1), 0);
    EXPECT_EQ(Complaint(app, {}), "");
    EXPECT_TRUE(tls) << text;
  }
  EXPECT_EQ(Complaint(app, {"--no-tls"}), "");
  EXPECT_FALSE(tls);
  ASSERT_EQ(unsetenv("TVQ_TLS"), 0);
}

TEST(FlagsTest, AWrongFractionIsNamed) {
  double seconds = 1;
  bool verbose = false;
  const Program app("", "program");
  app.AddSetting("--some-seconds", seconds, "");
  app.AddFlag("--verbose", verbose, "").Environment("TVQ_VERBOSE");
  EXPECT_EQ(Complaint(app, {"--some-seconds", "soon"}), "--some-seconds: soon is no number");
  ASSERT_EQ(setenv("TVQ_SOME_SECONDS", "soon", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "TVQ_SOME_SECONDS: soon is no number");
  ASSERT_EQ(unsetenv("TVQ_SOME_SECONDS"), 0);
  ASSERT_EQ(setenv("TVQ_VERBOSE", "maybe", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "TVQ_VERBOSE: maybe is neither true nor false");
  ASSERT_EQ(unsetenv("TVQ_VERBOSE"), 0);
}

TEST(FlagsTest, WhatNobodyKnowsIsNamedBeforeWhatIsMissing) {
  std::string file;
  const Program app("", "program");
  app.Add("FILE", file, "").Required();
  EXPECT_EQ(Complaint(app, {}), "FILE is required");
  EXPECT_EQ(Complaint(app, {"--unknown"}), "Unknown option --unknown");
}

TEST(FlagsTest, WhatNobodyKnowsIsNamedWithWhatIsLikeIt) {
  int tokens = 0;
  std::string file;
  const Program app("", "program");
  app.Add("--other", file, "");
  const Command command = app.AddCommand("generate", "");
  command.Add("--max-tokens", tokens, "");
  app.AddCommand("session", "").AddCommand("show", "");
  app.OptionsMayFollow();
  for (const char* flag : {"--max_tokens", "--max-token", "--max_tokens=5"}) {
    EXPECT_EQ(Complaint(app, {"generate", flag, "5", "text"}),
              "Unknown option " + std::string(flag).substr(0, std::string(flag).find('=')) +
                  "; did you mean --max-tokens?");
  }
  EXPECT_EQ(Complaint(app, {"generate", "--othr", "x"}),
            "Unknown option --othr; did you mean --other?");
  EXPECT_EQ(Complaint(app, {"generate", "--verbose"}), "Unknown option --verbose");
  EXPECT_EQ(Complaint(app, {"generate", "text", "more"}), "Unexpected argument text");
  EXPECT_EQ(Complaint(app, {"generte"}), "Unknown command generte; did you mean generate?");
  EXPECT_EQ(Complaint(app, {"session", "shwo"}), "Unknown command shwo; did you mean show?");
  for (const char* flag : {"--max-tokens", "--verbose"}) {  // nobody can know the options of those
    EXPECT_EQ(Complaint(app, {"generat", flag, "5"}),
              "Unknown command generat; did you mean generate?");
    EXPECT_EQ(Complaint(app, {"session", "shwo", flag, "5"}),
              "Unknown command shwo; did you mean show?");
  }
}

TEST(FlagsTest, AnArgumentThatIsNotExpectedIsToldWhereItBelongs) {
  std::string text;
  const Program app("", "program");
  const Command command = app.AddCommand("generate", "");
  command.Add("--prompt", text, "");
  command.InsteadOfArguments("a text is given with --prompt");
  app.AddCommand("info", "");
  EXPECT_EQ(Complaint(app, {"generate", "Once upon"}),
            "Unexpected argument Once upon; a text is given with --prompt");
  EXPECT_EQ(Complaint(app, {"info", "Once"}), "Unexpected argument Once");
}

TEST(FlagsTest, WhatIsWrongIsSaidInPlainWords) {
  std::string text, file, size, id;
  int count = 1;
  float share = 0;
  int64_t bytes = 0;
  std::vector<std::string> stops;
  const Program app("", "program");
  const Option of_text = app.Add("--text", text, "");
  app.Add("--file", file, "").TypeName("FILE").Excludes(of_text);
  app.Add("--size", size, "").OneOf({"small", "large"});
  app.Add("--id", id, "").NotEmpty("an id");
  app.Add("--count", count, "").Within(1, 128);
  app.Add("--share", share, "").Within(0.0F, 0.5F);
  app.Add("--bytes", bytes, "").NotNegative();
  app.Add("--stop", stops, "").OneValueEach();
  EXPECT_EQ(Complaint(app, {"--text", "a", "--file", "b"}),
            "--text and --file cannot be given together");
  EXPECT_EQ(Complaint(app, {"--file"}), "--file: its value is missing");
  EXPECT_EQ(Complaint(app, {"--stop"}), "--stop: its value is missing");
  EXPECT_EQ(Complaint(app, {"--text", "a", "--text", "b"}),
            "--text: is given 2 times, must be given once");
  EXPECT_EQ(Complaint(app, {"--size", "huge"}), "--size: huge is none of small, large");
  EXPECT_EQ(Complaint(app, {"--id", ""}), "--id: it is empty, must be an id");
  EXPECT_EQ(Complaint(app, {"--count", "0"}), "--count: 0 is out of range, must be from 1 to 128");
  EXPECT_EQ(Complaint(app, {"--share", "0.75"}),
            "--share: 0.75 is out of range, must be from 0 to 0.5");
  EXPECT_EQ(Complaint(app, {"--share", "half"}), "--share: half is no number");
  EXPECT_THAT(Complaint(app, {"--bytes", "-1"}),
              testing::StartsWith("--bytes: -1 is out of range, must be from 0"));
  const Program commands("", "program");
  commands.AddCommand("list", "");
  commands.AddCommand("show", "");
  commands.RequireCommand();
  EXPECT_EQ(Complaint(commands, {}), "A command is required: list, show");
}

TEST(FlagsTest, AWholeNumberIsTakenAsItIsOrRefused) {
  int integer = 1;
  uint64_t natural = 1;
  std::optional<int64_t> large;
  std::vector<int32_t> list;
  const Program app("", "program");
  app.Add("--integer", integer, "");
  app.Add("--natural", natural, "");
  app.Add("--large", large, "");
  app.Add("--list", list, "").SplitAt(',');
  EXPECT_EQ(Complaint(app, {"--natural", "18446744073709551615"}), "");
  EXPECT_EQ(natural, UINT64_MAX);
  EXPECT_EQ(Complaint(app, {"--natural", "18446744073709551616"}),
            "--natural: 18446744073709551616 is too large (at most 18446744073709551615)");
  EXPECT_EQ(Complaint(app, {"--natural", "-1"}), "--natural: -1 is no whole number from 0 on");
  EXPECT_EQ(Complaint(app, {"--integer", "2147483648"}),
            "--integer: 2147483648 is too large (at most 2147483647)");
  EXPECT_EQ(Complaint(app, {"--integer", "-3"}), "");
  EXPECT_EQ(integer, -3);
  EXPECT_EQ(Complaint(app, {"--large", "-9223372036854775809"}),
            "--large: -9223372036854775809 is too small (at least -9223372036854775808)");
  for (const char* text : {"010", " 10", "10\n", "+10"}) {
    EXPECT_EQ(Complaint(app, {"--integer", text}), "");
    EXPECT_EQ(integer, 10) << text;
  }
  EXPECT_EQ(Complaint(app, {"--list", "5, 08, -2"}), "");
  EXPECT_THAT(list, testing::ElementsAre(5, 8, -2));
  for (const char* text : {"1.5", "1e3", "0x10", "3 4", "three", "++1"}) {
    EXPECT_EQ(Complaint(app, {"--list", std::string("1,").append(text).c_str()}),
              "--list: " + std::string(text) + " is no whole number");
  }
}

TEST(FlagsTest, ANumberOfBitsMayHaveASign) {
  std::optional<uint64_t> seed;
  const Program app("", "program");
  app.AddBits("--seed", seed, "");
  const std::pair<const char*, uint64_t> taken[] = {{"0", 0},
                                                    {" +07", 7},
                                                    {"-1", UINT64_MAX},
                                                    {"-9223372036854775808", uint64_t{1} << 63},
                                                    {"18446744073709551615", UINT64_MAX}};
  for (const auto& [text, value] : taken) {
    EXPECT_EQ(Complaint(app, {"--seed", text}), "");
    EXPECT_EQ(seed, value) << text;
  }
  EXPECT_EQ(Complaint(app, {"--seed", "18446744073709551616"}),
            "--seed: 18446744073709551616 is too large (at most 18446744073709551615)");
  EXPECT_EQ(Complaint(app, {"--seed", "-9223372036854775809"}),
            "--seed: -9223372036854775809 is too small (at least -9223372036854775808)");
  EXPECT_EQ(Complaint(app, {"--seed", "one"}), "--seed: one is no whole number");
  EXPECT_EQ(Complaint(app, {"--seed", ""}), "--seed: it is empty, must be a number");
}

// What a program prints on stdout before it ends well.
std::string Printed(const Program& program, std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "program");
  testing::internal::CaptureStdout();
  EXPECT_EQ(program.Parse(static_cast<int>(arguments.size()), arguments.data()), 0);
  return testing::internal::GetCapturedStdout();
}

TEST(FlagsTest, ASubcommandsHelpShowsWhatMayFollowIt) {
  std::string server, name;
  const Program app("", "program");
  app.Add("--server", server, "Where it is").Group("Connection");
  app.OptionsMayFollow();
  const Command session = app.AddCommand("session", "");
  session.AddCommand("show", "").Add("--name", name, "Its name");
  for (const auto& words : std::vector<std::vector<const char*>>{{"session", "--help"},
                                                                 {"session", "show", "--help"}}) {
    EXPECT_THAT(Printed(app, words),
                testing::ContainsRegex("\nConnection:\n  --server TEXT +Where"));
  }
  EXPECT_EQ(Complaint(app, {"session", "show", "--server", "here"}), "");
  EXPECT_EQ(server, "here");
}

TEST(FlagsTest, OptionsStandUnderHeadingsInTheirOrder) {
  int port = 0, threads = 0;
  const Program app("", "program");
  app.Heading("Models");
  app.AddSetting("--threads", threads, "How many");
  app.Heading("Addresses");
  app.AddSetting("--port", port, "Where");
  EXPECT_THAT(Printed(app, {"--help"}),
              testing::ContainsRegex("Models:\n  --threads (.*\n)+Addresses:\n  --port "));
}

TEST(FlagsTest, HelpIsACommandToo) {
  std::string name;
  Program app("", "program");
  app.AddCommand("session", "").AddCommand("show", "").Add("--name", name, "Its name");
  app.RequireCommand();
  app.AddHelp();
  EXPECT_EQ(Printed(app, {"help"}), Printed(app, {"--help"}));
  EXPECT_EQ(Printed(app, {"help", "session"}), Printed(app, {"session", "--help"}));
  EXPECT_EQ(Printed(app, {"help", "session", "show"}), Printed(app, {"session", "show", "--help"}));
  EXPECT_THAT(Printed(app, {"help", "session", "show"}), testing::HasSubstr("--name TEXT"));
  EXPECT_EQ(Complaint(app, {"help", "sesion"}), "Unknown command sesion; did you mean session?");
  EXPECT_EQ(Complaint(app, {"help", "session", "show", "more"}), "Unexpected argument more");
}

TEST(FlagsTest, AChoiceIsOfOne) {
  std::string text, file;
  const Program app("", "program");
  const Command choice = app.AddChoice("Input", "");
  choice.Add("--text", text, "");
  choice.Add("--file", file, "");
  EXPECT_THAT(Complaint(app, {}), testing::HasSubstr("1"));
  EXPECT_EQ(Complaint(app, {"--text", "a"}), "");
  EXPECT_THAT(Complaint(app, {"--text", "a", "--file", "b"}), testing::HasSubstr("1"));
}

TEST(FlagsTest, GivenNamesWhatTheCommandLineSet) {
  int count = 1;
  std::vector<int> list;
  const Program app("", "program");
  app.Add("--count", count, "");
  app.Add("--list", list, "").SplitAt(',');
  EXPECT_EQ(Complaint(app, {"--list", "1,2"}), "");
  EXPECT_THAT(app.Given(), testing::ElementsAre(testing::Pair("list", "1,2")));
}

}  // namespace
}  // namespace tvq::flags
