#include "models/runtime/begin_id.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

namespace tvq {
namespace {

using ::testing::ElementsAre;

ModelInfo MakeInfo(bool add, std::optional<int32_t> generation, std::optional<int32_t> config) {
  ModelInfo info;
  info.generation.add_bos_token = add;
  info.generation.bos_token_id = generation;
  info.config.bos_token_id = config;
  return info;
}

TEST(BosTokenIdTest, GenerationConfigGoesBeforeConfig) {
  EXPECT_EQ(BosTokenId(MakeInfo(true, 5, 7)), 5);
  EXPECT_EQ(BosTokenId(MakeInfo(true, std::nullopt, 7)), 7);
  EXPECT_EQ(BosTokenId(MakeInfo(false, std::nullopt, std::nullopt)), std::nullopt);
}

TEST(AddBosTokenTest, StandsFirstWhereTheModelWantsIt) {
  std::vector<int32_t> ids = {8, 9};
  EXPECT_FALSE(AddBosToken(MakeInfo(false, 5, 7), &ids));
  EXPECT_THAT(ids, ElementsAre(8, 9));
  EXPECT_TRUE(AddBosToken(MakeInfo(true, 5, 7), &ids));
  EXPECT_THAT(ids, ElementsAre(5, 8, 9));
  std::vector<int32_t> none;
  EXPECT_TRUE(AddBosToken(MakeInfo(true, std::nullopt, 7), &none));
  EXPECT_THAT(none, ElementsAre(7));
}

TEST(AddBosTokenTest, IsNotAddedToATextThatBeginsWithIt) {
  std::vector<int32_t> ids = {5, 8};
  EXPECT_FALSE(AddBosToken(MakeInfo(true, 5, std::nullopt), &ids));
  EXPECT_THAT(ids, ElementsAre(5, 8));
}

TEST(AddBosTokenTest, IsNotOfModelsThatPredictNothing) {
  ModelInfo encoder = MakeInfo(true, 5, std::nullopt);
  encoder.predicts = false;
  std::vector<int32_t> ids = {8};
  EXPECT_FALSE(AddsBosToken(encoder));
  EXPECT_FALSE(AddBosToken(encoder, &ids));
  EXPECT_THAT(ids, ElementsAre(8));
}

TEST(EndIdsTest, ThoseOfGenerationConfigGoFirst) {
  ModelInfo info;
  EXPECT_EQ(EndIds(info), std::vector<int32_t>());
  info.config.eos_token_id = 3;
  info.config.more_end_ids = {5, 7};
  EXPECT_EQ(EndIds(info), (std::vector<int32_t>{3, 5, 7}));
  info.generation.end_ids = {7, 2};
  EXPECT_EQ(EndIds(info), (std::vector<int32_t>{7, 2}));
}

}  // namespace
}  // namespace tvq
