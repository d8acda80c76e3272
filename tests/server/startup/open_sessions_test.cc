#include "server/startup/open_sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tvq {
namespace {

using testing::HasSubstr;

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

}  // namespace
}  // namespace tvq
