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

// What a program would say to this command line; "" if it takes it.
std::string Complaint(CLI::App& app, std::vector<std::string> reversed_arguments) {
  try {
    app.parse(std::move(reversed_arguments));
  } catch (const CLI::ParseError& e) {
    return e.what();
  }
  return "";
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
  CLI::App app;
  app.add_option("--integer", integer);
  app.add_option("--natural", natural);
  app.add_option("--list", list)->delimiter(',');
  app.add_option("--ranged", ranged)->check(CLI::Range(0, 9));
  Add(app, "--text", text, "");
  AddSize(app, "--bytes", bytes, "");
  CLI::App* command = app.add_subcommand("command");
  command->add_option("--fraction", fraction);
  command->add_option("--seconds", seconds)->type_name("SECONDS");
  RefuseEmptyNumbers(app);

  for (const std::string flag : {"--integer", "--natural", "--list", "--ranged", "--bytes"}) {
    EXPECT_EQ(Complaint(app, {"", flag}), flag + ": it is empty, must be a number");
    EXPECT_EQ(Complaint(app, {"3", flag}), "");
  }
  for (const std::string flag : {"--fraction", "--seconds"}) {
    EXPECT_EQ(Complaint(app, {"", flag, "command"}), flag + ": it is empty, must be a number");
    EXPECT_EQ(Complaint(app, {"0.5", flag, "command"}), "");
  }
  EXPECT_THAT(Complaint(app, {"12", "--ranged"}), testing::HasSubstr("--ranged: Value 12 not in"));
  EXPECT_EQ(Complaint(app, {"", "--text"}), "");
  EXPECT_EQ(text, "");
}

TEST(FlagsTest, AnEmptyVariableIsNoValue) {
  int64_t bytes = 7;
  CLI::App app;
  AddSize(app, "--some-bytes", bytes, "");
  RefuseEmptyNumbers(app);
  ASSERT_EQ(setenv("TVQ_SOME_BYTES", "", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "");
  EXPECT_EQ(bytes, 7);
  ASSERT_EQ(setenv("TVQ_SOME_BYTES", "2KB", /*overwrite=*/1), 0);
  EXPECT_EQ(Complaint(app, {}), "");
  EXPECT_EQ(bytes, 2048);
  EXPECT_EQ(Complaint(app, {"3", "--some-bytes"}), "");
  EXPECT_EQ(bytes, 3) << "flags win";
  ASSERT_EQ(unsetenv("TVQ_SOME_BYTES"), 0);
}

}  // namespace
}  // namespace tvq::flags
