#include "models/verify/expected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/models/runtime/safetensors_bytes.h"
#include "tests/models/runtime/temp_dir.h"

namespace tvq::verify {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::tvq::fixtures::SafetensorsBytes;
using ::tvq::fixtures::TempDir;

std::string Data(const std::vector<int32_t>& ids, const std::vector<float>& values) {
  std::string data;
  const auto append = [&](const auto& numbers) {
    for (const auto& number : numbers) {
      data.append(reinterpret_cast<const char*>(&number), sizeof(number));
    }
  };
  append(ids);
  append(values);
  return data;
}

absl::StatusOr<std::vector<ExpectedSequence>> Read(const std::string& header,
                                                   const std::string& data) {
  const TempDir dir;
  return ReadExpected(dir.Write("e.safetensors", SafetensorsBytes(header, data)), 3);
}

TEST(ExpectedTest, ReadsWholeRows) {
  const auto sequences =
      Read(R"({"a.tokens": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]},
      "a.logprobs": {"dtype": "F32", "shape": [2, 3], "data_offsets": [8, 32]}})",
           Data({1, 2}, {-1, -2, -3, -4, -5, -6}));
  ASSERT_TRUE(sequences.ok()) << sequences.status();
  ASSERT_EQ(sequences->size(), 1u);
  EXPECT_EQ((*sequences)[0].name, "a");
  EXPECT_THAT((*sequences)[0].tokens, ElementsAre(1, 2));
  EXPECT_EQ((*sequences)[0].row_count, 2);
  EXPECT_THAT((*sequences)[0].rows, ElementsAre(-1, -2, -3, -4, -5, -6));
  EXPECT_FALSE((*sequences)[0].greedy);
}

TEST(ExpectedTest, ReadsTargetsAndLastRows) {
  const auto sequences =
      Read(R"({"a.tokens": {"dtype": "I32", "shape": [3], "data_offsets": [0, 12]},
      "a.target_logprobs": {"dtype": "F32", "shape": [2], "data_offsets": [12, 20]},
      "a.last_logprobs": {"dtype": "F32", "shape": [1, 3], "data_offsets": [20, 32]}})",
           Data({0, 1, 2}, {-1, -2, -3, -4, -5}));
  ASSERT_TRUE(sequences.ok()) << sequences.status();
  EXPECT_EQ((*sequences)[0].row_count, 1);
  EXPECT_THAT((*sequences)[0].targets, ElementsAre(-1, -2));
  EXPECT_THAT((*sequences)[0].rows, ElementsAre(-3, -4, -5));
}

TEST(ExpectedTest, NamesWhatIsWrong) {
  const std::string tokens =
      R"("a.tokens": {"dtype": "I32", "shape": [2], "data_offsets": [0, 8]})";
  EXPECT_THAT(Read("{" + tokens + "}", Data({1, 2}, {})).status().ToString(),
              HasSubstr("a.logprobs or .vectors: missing"));
  EXPECT_THAT(Read("{" + tokens + "}", Data({1, 3}, {})).status().ToString(),
              HasSubstr("entry 1 is 3, must be in [0, 3)"));
  EXPECT_THAT(Read("{" + tokens + R"(, "a.logprobs": {"dtype": "F32", "shape": [2, 2],
      "data_offsets": [8, 24]}})",
                   Data({1, 2}, {0, 0, 0, 0}))
                  .status()
                  .ToString(),
              HasSubstr("has shape [2, 2], must be [2, 3]"));
  EXPECT_THAT(Read("{}", "").status().ToString(), HasSubstr("holds no sequence"));
}

}  // namespace
}  // namespace tvq::verify
