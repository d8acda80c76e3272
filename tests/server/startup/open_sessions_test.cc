#include "server/startup/open_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace tvq {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(OpenSessionsTest, NamesTheFileOfPromptsThatCannotBeRead) {
  const std::string dir = testing::TempDir();
  for (const std::string& file : {dir, dir + "/nowhere"}) {
    SessionFlags flags;
    flags.shared_prompt_files = {file};
    const auto store = OpenSessions(/*engine=*/nullptr, flags);
    EXPECT_EQ(store.status().code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(store.status().message()), HasSubstr("--shared-prompt-file " + file));
  }
}

TEST(OpenSessionsTest, NamesTheFlagOfATierThatCannotBe) {
  const std::string file = testing::TempDir() + "/no_directory";
  std::ofstream(file) << "text";
  SessionFlags flags;
  flags.dir = file;
  EXPECT_EQ(std::string(OpenSessions(/*engine=*/nullptr, flags).status().message()),
            "--session-dir: cannot make directory " + file + ": it is a file, must be a directory");
  flags.redis = "http://here";
  EXPECT_THAT(std::string(OpenSessions(/*engine=*/nullptr, flags).status().message()),
              StartsWith("--redis: Redis URL: another scheme"));
}

}  // namespace
}  // namespace tvq
