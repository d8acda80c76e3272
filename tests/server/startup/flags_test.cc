#include "server/startup/flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

using ::testing::StartsWith;

std::optional<Flags> ParseAll(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "tvq-server");
  std::vector<char*> argv;
  argv.reserve(arguments.size());
  for (std::string& argument : arguments) argv.push_back(argument.data());
  int exit_code = 0;
  return ParseFlags(static_cast<int>(argv.size()), argv.data(), &exit_code);
}

std::optional<Flags> Parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"--model", "m=dir"});
  return ParseAll(std::move(arguments));
}

// What is served, as NAME=DIR, below `root`; nothing if it is refused.
std::optional<std::vector<std::string>> Models(const std::vector<std::string>& arguments,
                                               const std::string& root = "") {
  const auto flags = ParseAll(arguments);
  if (!flags) return std::nullopt;
  std::vector<std::string> models;
  for (const ModelFlag& model : flags->models) {
    EXPECT_TRUE(model.dir.starts_with(root)) << model.dir;
    std::string served = model.name + "=" + model.dir.substr(root.size());
    if (!model.instead_of.empty()) served += " instead of " + model.instead_of.substr(root.size());
    models.push_back(std::move(served));
  }
  return models;
}

std::optional<bool> KeepsTranscripts(const std::vector<std::string>& arguments) {
  const auto flags = Parse(arguments);
  if (!flags) return std::nullopt;
  return flags->sessions.options.keep_transcript;
}

TEST(FlagsTest, StatesAreReadExactlyAndWholeUnlessAskedOtherwise) {
  const auto flags = Parse({});
  ASSERT_TRUE(flags);
  EXPECT_EQ(flags->state_read_dtype, "exact");
  EXPECT_EQ(flags->attention_skip_mass, 0);
  const auto reduced = Parse({"--state-read-dtype", "int8", "--attention-skip-mass", "0.25"});
  ASSERT_TRUE(reduced);
  EXPECT_EQ(reduced->state_read_dtype, "int8");
  EXPECT_EQ(reduced->attention_skip_mass, 0.25F);
  for (const char* mass : {"1", "-0.1", "nan", "much"}) {
    EXPECT_FALSE(Parse({"--attention-skip-mass", mass})) << mass;
  }
  EXPECT_FALSE(Parse({"--state-read-dtype", "bfloat16"}));
}

TEST(FlagsTest, NothingIsDraftedUnlessAskedFor) {
  EXPECT_EQ(Parse({})->draft_tokens, 0);
  EXPECT_EQ(Parse({"--draft-tokens", "7"})->draft_tokens, 7);
  for (const char* tokens : {"-1", "65", "some"}) {
    EXPECT_FALSE(Parse({"--draft-tokens", tokens})) << tokens;
  }
}

// What is said to a command line that is refused; "" if it is taken.
std::string Complaint(const std::vector<std::string>& arguments) {
  ::testing::internal::CaptureStderr();
  const bool taken = Parse(arguments).has_value();
  const std::string said = ::testing::internal::GetCapturedStderr();
  return taken ? "" : said;
}

TEST(FlagsTest, WhatIsNoNumberIsRefusedByName) {
  for (const std::string flag :
       {"--port", "--threads", "--max-num-seqs", "--max-num-batched-tokens", "--max-prompt-tokens",
        "--max-connections", "--session-ttl", "--state-memory-bytes", "--attention-skip-mass",
        "--metrics-port"}) {
    EXPECT_THAT(Complaint({flag, ""}), StartsWith(flag + ": it is empty, must be a number"));
    EXPECT_THAT(Complaint({flag, "many"}), StartsWith(flag + ": "));
    EXPECT_THAT(Complaint({flag, "-1"}), StartsWith(flag + ": "));
  }
  EXPECT_THAT(
      Complaint({"--max-prompt-tokens", "-1"}),
      StartsWith("--max-prompt-tokens: -1 is out of range, must be from 0 to 1152921504606846976"));
}

TEST(FlagsTest, WhatDoesNotGoTogetherIsRefusedByName) {
  EXPECT_THAT(Complaint({"--device", "gpu"}), StartsWith("--device: gpu is none of cpu, cuda, "));
  EXPECT_EQ(Complaint({"--tf32"}), "--tf32: must be left out with --device cpu, is for cuda\n");
  EXPECT_EQ(Complaint({"--tf32", "--device", "cuda"}), "");
  EXPECT_THAT(Complaint({"--host", ""}), StartsWith("--host: it is empty"));
  EXPECT_THAT(Complaint({"--metrics-host", ""}), StartsWith("--metrics-host: it is empty"));
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

// A folder of models: b and a, c without a config.json, and a file.
class ModelDirTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const char* name : {"b", "a", "c"}) std::filesystem::create_directories(root_ + name);
    for (const char* name : {"b/config.json", "a/config.json", "notes.txt"}) {
      std::ofstream(root_ + name) << "{}";
    }
  }
  void TearDown() override {
    std::filesystem::remove_all(root_);
    unsetenv("TVQ_MODEL");
    unsetenv("TVQ_MODEL_DIR");
  }

  const std::string root_ = ::testing::TempDir() + "model_dir_" + std::to_string(getpid()) + "/";
};

using Served = std::vector<std::string>;

TEST_F(ModelDirTest, ServesTheFoldersWithAConfiguration) {
  EXPECT_EQ(Models({"--model-dir", root_}, root_), (Served{"a=a", "b=b"}));
  EXPECT_EQ(Models({"--model-dir", root_, "--model", "m=" + root_ + "c"}, root_),
            (Served{"m=c", "a=a", "b=b"}));
}

TEST_F(ModelDirTest, RefusesWhatHoldsNoModels) {
  EXPECT_EQ(Models({"--model-dir", root_ + "c"}), std::nullopt);
  EXPECT_EQ(Models({"--model-dir", root_ + "nothing"}), std::nullopt);
  EXPECT_EQ(Models({"--model", "a=here", "--model", "a=there"}), std::nullopt) << "a twice";
}

TEST_F(ModelDirTest, AModelWithoutANameIsToldHowToNameIt) {
  const auto complaint = [](const std::string& model) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Models({"--model", model}), std::nullopt);
    return ::testing::internal::GetCapturedStderr();
  };
  for (const std::string end : {"a", "a/", "b/../a"}) {
    const std::string dir = absl::StrCat(root_, end);
    EXPECT_EQ(complaint(dir),
              absl::StrCat("--model: is \"", dir, "\", must be NAME=DIR, such as a=", dir, "\n"));
  }
  EXPECT_EQ(complaint(root_), "--model: is \"" + root_ + "\", must be NAME=DIR; --model-dir " +
                                  root_ + " serves all that are in it\n");
  EXPECT_EQ(complaint("a="), "--model: is \"a=\", must be NAME=DIR\n");
}

TEST_F(ModelDirTest, AVariableThatIsWrongIsNamed) {
  const auto complaint = [] {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(Models({}), std::nullopt);
    return ::testing::internal::GetCapturedStderr();
  };
  ASSERT_EQ(setenv("TVQ_MODEL_DIR", (root_ + "nothing").c_str(), /*overwrite=*/1), 0);
  EXPECT_EQ(complaint(), "TVQ_MODEL_DIR: " + root_ + "nothing: No such file or directory\n");
  ASSERT_EQ(setenv("TVQ_MODEL", "a=", /*overwrite=*/1), 0);
  EXPECT_EQ(complaint(), "TVQ_MODEL: is \"a=\", must be NAME=DIR\n");
  ASSERT_EQ(setenv("TVQ_MODEL", "a=b,a=c", /*overwrite=*/1), 0);
  EXPECT_EQ(complaint(), "TVQ_MODEL: the name \"a\" is given twice\n");
}

TEST_F(ModelDirTest, ANamedModelTakesTheFoldersPlace) {
  EXPECT_EQ(Models({"--model-dir", root_, "--model", "a=" + root_ + "c"}, root_),
            (Served{"a=c instead of a", "b=b"}));
  ASSERT_EQ(setenv("TVQ_MODEL_DIR", root_.c_str(), /*overwrite=*/1), 0);
  ASSERT_EQ(setenv("TVQ_MODEL", ("b=" + root_ + "d").c_str(), /*overwrite=*/1), 0);
  EXPECT_EQ(Models({}, root_), (Served{"b=d instead of b", "a=a"}));
}

TEST_F(ModelDirTest, TheEnvironmentCountsWhereNoFlagSaysWhatToServe) {
  EXPECT_EQ(Models({}), std::nullopt);
  ASSERT_EQ(setenv("TVQ_MODEL_DIR", root_.c_str(), /*overwrite=*/1), 0);
  EXPECT_EQ(Models({}, root_), (Served{"a=a", "b=b"}));
  EXPECT_EQ(Models({"--model", "m=dir"}), (Served{"m=dir"})) << "flags win";
  ASSERT_EQ(setenv("TVQ_MODEL", ("m=" + root_ + "c,n=" + root_ + "d").c_str(), 1), 0);
  EXPECT_EQ(Models({}, root_), (Served{"m=c", "n=d", "a=a", "b=b"}));
  ASSERT_EQ(setenv("TVQ_MODEL_DIR", "", 1), 0);
  EXPECT_EQ(Models({}, root_), (Served{"m=c", "n=d"}));
}

}  // namespace
}  // namespace tvq
