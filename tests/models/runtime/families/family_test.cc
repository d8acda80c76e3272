#include "models/runtime/families/family.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace tvq {
namespace {

using testing::HasSubstr;

// With a byte for each of 2^60 tokens.
std::string LongestError(const std::string& json) {
  const Config config = Config::Parse(json, "config.json").value();
  return std::string(
      CheckLongest(config, int64_t{1} << 60, [](int64_t tokens) { return tokens; }).message());
}

TEST(FamilyTest, AContextOfTooManyBytesIsOfTheFieldThatSaysIt) {
  EXPECT_THAT(LongestError(R"({"max_position": 1152921504606846976})"),
              HasSubstr(R"(field "max_position" is 1152921504606846976; it must be)"));
  EXPECT_THAT(LongestError(R"({"max_position_embeddings": 1152921504606846976})"),
              HasSubstr(R"(field "max_position_embeddings" is 1152921504606846976; it must be)"));
  // The second is not read beside the first.
  for (const char* json : {"{}", R"({"max_position": 100})", R"({"max_position_embeddings": 100})",
                           R"({"max_position": 100, "max_position_embeddings": -1})"}) {
    EXPECT_EQ(LongestError(json),
              "max_model_len is 1152921504606846976, must be at most 72057594037927936");
  }
}

}  // namespace
}  // namespace tvq
