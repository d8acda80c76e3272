#include "server/rpc/access/api_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

using testing::HasSubstr;

// printf %s "$KEY" | sha256sum
constexpr char kHashOfAlpha[] = "8ed3f6ad685b959ead7022518e1af76cd816f8e8ec7ccdda1ed4018e8f2223f8";
constexpr char kHashOfBeta[] = "f44e64e75f3948e9f73f8dfa94721c4ce8cbb4f265c4790c702b2d41cfbf2753";

absl::StatusOr<ApiKeys> Parse(const std::string& text) { return ApiKeys::Parse(text, "keys.txt"); }

TEST(ApiKeysTest, FindsAKeyByItsHash) {
  const auto keys = Parse(absl::StrCat("# who may call\n\nana ", kHashOfAlpha, "  # her laptop\n",
                                       "ops\t", kHashOfBeta, " admin,sessions\r\n"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->size(), 2);

  const ApiKey* const ana = keys->Find("alpha");
  ASSERT_NE(ana, nullptr);
  EXPECT_EQ(ana->name, "ana");
  EXPECT_TRUE(ana->Allows(Permission::kAny));
  EXPECT_TRUE(ana->Allows(Permission::kGenerate));
  EXPECT_TRUE(ana->Allows(Permission::kSessions));
  EXPECT_FALSE(ana->Allows(Permission::kAdmin));

  const ApiKey* const ops = keys->Find("beta");
  ASSERT_NE(ops, nullptr);
  EXPECT_EQ(ops->name, "ops");
  EXPECT_TRUE(ops->Allows(Permission::kAny));
  EXPECT_FALSE(ops->Allows(Permission::kGenerate));
  EXPECT_TRUE(ops->Allows(Permission::kSessions));
  EXPECT_TRUE(ops->Allows(Permission::kAdmin));
}

TEST(ApiKeysTest, KnowsNoOtherKey) {
  const auto keys = Parse(absl::StrCat("ana ", kHashOfAlpha));
  ASSERT_TRUE(keys.ok()) << keys.status();
  for (const char* const other : {"", "alph", "alpha ", "Alpha", "beta", kHashOfAlpha}) {
    EXPECT_EQ(keys->Find(other), nullptr) << other;
  }
}

TEST(ApiKeysTest, OneOwnerMayHaveTwoKeys) {
  const auto keys = Parse(absl::StrCat("ana ", kHashOfAlpha, "\nana ", kHashOfBeta));
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->Find("alpha")->name, keys->Find("beta")->name);
}

TEST(ApiKeysTest, ALineMayGiveLimits) {
  const auto keys = Parse(absl::StrCat("ana ", kHashOfAlpha, " weight=3 generate max-num-seqs=4\n",
                                       "ops ", kHashOfBeta, " max-num-admitted-seqs=0\n"));
  ASSERT_TRUE(keys.ok()) << keys.status();
  const OwnerLimits usual{.weight = 1, .max_num_seqs = 9, .max_num_admitted_seqs = 90};
  EXPECT_EQ(keys->Find("alpha")->LimitsOver(usual),
            (OwnerLimits{.weight = 3, .max_num_seqs = 4, .max_num_admitted_seqs = 90}));
  EXPECT_FALSE(keys->Find("alpha")->Allows(Permission::kSessions));
  EXPECT_EQ(keys->Find("beta")->LimitsOver(usual),
            (OwnerLimits{.weight = 1, .max_num_seqs = 9, .max_num_admitted_seqs = 0}));
}

TEST(ApiKeysTest, TakesHexadecimalDigitsOfEitherCase) {
  std::string hash = kHashOfAlpha;
  for (char& c : hash) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  const auto keys = Parse("ana " + hash);
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_NE(keys->Find("alpha"), nullptr);
}

TEST(ApiKeysTest, NamesTheLineThatIsWrong) {
  const std::string good = absl::StrCat("ana ", kHashOfAlpha, "\n");
  const struct {
    std::string line;
    std::string words;
  } cases[] = {
      {"ops", "1 words"},
      {absl::StrCat("ops ", kHashOfBeta, " admin sessions"), "two words of permissions"},
      {"ops beta", "64 hexadecimal digits"},
      {absl::StrCat("ops ", kHashOfBeta, "0"), "64 hexadecimal digits"},
      {absl::StrCat("ops g", std::string(kHashOfBeta).substr(1)), "64 hexadecimal digits"},
      {absl::StrCat("o/ps ", kHashOfBeta), "the name"},
      {absl::StrCat(std::string(65, 'o'), " ", kHashOfBeta), "the name"},
      {absl::StrCat("ops ", kHashOfBeta, " admin,root"), "\"root\""},
      {absl::StrCat("ops ", kHashOfBeta, " admin,"), "\"\""},
      {absl::StrCat("ops ", kHashOfAlpha), "twice"},
      {absl::StrCat("ops ", kHashOfBeta, " weight=0"), "weight must be a number from 1"},
      {absl::StrCat("ops ", kHashOfBeta, " weight=two"), "weight must be a number"},
      {absl::StrCat("ops ", kHashOfBeta, " admin weight=2 weight=2"), "weight is given twice"},
      {absl::StrCat("ops ", kHashOfBeta, " max-num-seqs=-1"), "max-num-seqs must be"},
      {absl::StrCat("ops ", kHashOfBeta, " max-seqs=1"), "\"max-seqs\" is none of weight"},
      {absl::StrCat("ana ", kHashOfBeta, " weight=2"), "a key of the same name"},
  };
  for (const auto& [line, words] : cases) {
    const auto keys = Parse(good + line + "\n");
    EXPECT_EQ(keys.status().code(), absl::StatusCode::kInvalidArgument) << line;
    EXPECT_THAT(std::string(keys.status().message()), HasSubstr("keys.txt, line 2: ")) << line;
    EXPECT_THAT(std::string(keys.status().message()), HasSubstr(words)) << line;
  }
}

TEST(ApiKeysTest, DoesNotRepeatWhatMayBeTheKeyItself) {
  const auto keys = Parse("ana my-secret");
  EXPECT_THAT(std::string(keys.status().message()), testing::Not(HasSubstr("my-secret")));
}

TEST(ApiKeysTest, RefusesAFileWithoutKeys) {
  for (const char* const text : {"", "\n\n", "# nobody yet\n"}) {
    EXPECT_EQ(Parse(text).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(ApiKeysTest, NamesTheFileThatCannotBeRead) {
  for (const std::string& file :
       {std::string("no/such/file"), std::filesystem::current_path().string()}) {
    const auto keys = ApiKeys::Read(file, Pipes::kWait);
    EXPECT_EQ(keys.status().code(), absl::StatusCode::kNotFound) << keys.status();
    EXPECT_THAT(std::string(keys.status().message()), HasSubstr(file));
  }
}

}  // namespace
}  // namespace tvq
