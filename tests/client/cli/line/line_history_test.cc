#include "client/cli/line/line_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "client/cli/line/state_files.h"

namespace tvq::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class LineHistoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/history.XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::vector<std::string> Lines(const LineHistory& history) {
    const auto lines = history.Load();
    EXPECT_TRUE(lines.ok()) << lines.status();
    return lines.ok() ? *lines : std::vector<std::string>();
  }

  std::string folder_;
};

mode_t ModeOf(const std::string& path) {
  struct stat found{};
  EXPECT_EQ(stat(path.c_str(), &found), 0);
  return found.st_mode & 0777;
}

TEST_F(LineHistoryTest, KeepsLines) {
  const std::string path = folder_ + "/a/b/history";
  EXPECT_THAT(Lines(LineHistory(path)), ElementsAre());
  for (const char* const line : {"one", "two\n\\n lines\\", "ħ"}) {
    ASSERT_TRUE(LineHistory(path).Add(line).ok());
  }
  EXPECT_THAT(Lines(LineHistory(path)), ElementsAre("one", "two\n\\n lines\\", "ħ"));
  EXPECT_EQ(ModeOf(path), 0600);
  EXPECT_EQ(ModeOf(folder_ + "/a"), 0700);
}

TEST_F(LineHistoryTest, KeepsTheLatest) {
  const std::string path = folder_ + "/history";
  const LineHistory history(path, {.lines = 3, .bytes = 12});
  for (const char* const line : {"one", "two", "three", "4"}) ASSERT_TRUE(history.Add(line).ok());
  EXPECT_THAT(Lines(history), ElementsAre("two", "three", "4"));
  ASSERT_TRUE(history.Add("fifth").ok());
  EXPECT_THAT(Lines(history), ElementsAre("4", "fifth"));  // of 12 bytes
  ASSERT_TRUE(history.Add("much too long").ok());
  EXPECT_THAT(Lines(history), ElementsAre("4", "fifth"));
  EXPECT_EQ(ModeOf(path), 0600);
}

TEST_F(LineHistoryTest, DoesNotGrowWithoutEnd) {
  const std::string path = folder_ + "/history";
  const LineHistory history(path, {.lines = 100, .bytes = 100});
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(history.Add("a line").ok());
  EXPECT_LE(std::filesystem::file_size(path), 200);
}

TEST_F(LineHistoryTest, SaysWhichFileCannotBeUsed) {
  std::filesystem::create_directory(folder_ + "/history");
  const LineHistory history(folder_ + "/history");
  EXPECT_THAT(std::string(history.Load().status().message()), HasSubstr(folder_ + "/history"));
  EXPECT_THAT(std::string(history.Add("a").message()), HasSubstr(folder_ + "/history"));
}

TEST(StateFilesTest, AreWhereStateIsKept) {
  setenv("HOME", "/home/me", 1);
  unsetenv("XDG_STATE_HOME");
  EXPECT_EQ(StateFile("history"), "/home/me/.local/state/tvq/history");
  setenv("XDG_STATE_HOME", "/state", 1);
  EXPECT_EQ(StateFile("history"), "/state/tvq/history");
  setenv("XDG_STATE_HOME", "state", 1);  // means nothing, says its specification
  EXPECT_EQ(StateFile("history"), "/home/me/.local/state/tvq/history");
  unsetenv("XDG_STATE_HOME");
  unsetenv("HOME");
  EXPECT_EQ(StateFile("history"), "");
}

}  // namespace
}  // namespace tvq::cli
