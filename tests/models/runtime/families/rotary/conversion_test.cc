#include "models/runtime/families/rotary/conversion.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace tvq {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

// Three layers of two key/value heads.
RotaryConfig ModelConfig() {
  RotaryConfig model;
  model.n_layer = 3;
  model.common.prefill_chunk = 128;
  model.attention.heads = 4;
  model.attention.kv_heads = 2;
  model.attention.head = 8;
  return model;
}

json Good() {
  return {{"version", 1},
          {"codes", 12},
          {"trained_context", 256},
          {"ring", 64},
          {"wide", {{{"ring", 256}, {"heads", {{1, 0}, {2, 0}, {2, 1}}}}}}};
}

absl::StatusOr<Conversion> Read(const json& conversion) {
  const json config = {{"conversion", conversion}};
  return ReadConversion(Config::Parse(config.dump(), "config.json").value(), ModelConfig());
}

TEST(ConversionTest, GroupsHeadsByTheirRings) {
  const Conversion read = Read(Good()).value();
  EXPECT_EQ(read.codes, 12);
  EXPECT_EQ(read.trained_context, 256);
  EXPECT_THAT(read.Rings(), ElementsAre(64, 256));
  ASSERT_EQ(read.groups.size(), 3U);
  ASSERT_EQ(read.groups[0].size(), 1U);
  EXPECT_EQ(read.groups[0][0].ring, 64);
  EXPECT_THAT(read.groups[0][0].heads, ElementsAre(0, 1));
  ASSERT_EQ(read.groups[1].size(), 2U);
  EXPECT_EQ(read.groups[1][0].ring, 64);
  EXPECT_THAT(read.groups[1][0].heads, ElementsAre(1));
  EXPECT_EQ(read.groups[1][1].ring, 256);
  EXPECT_THAT(read.groups[1][1].heads, ElementsAre(0));
  ASSERT_EQ(read.groups[2].size(), 1U);
  EXPECT_EQ(read.groups[2][0].ring, 256);
}

TEST(ConversionTest, HeadsThatGrowAreAGroupOfTheirOwn) {
  json conversion = Good();
  conversion["grow"] = {{0, 0}, {1, 1}};
  const Conversion read = Read(conversion).value();
  ASSERT_EQ(read.groups[0].size(), 2U);
  EXPECT_FALSE(read.groups[0][0].grows);
  EXPECT_THAT(read.groups[0][0].heads, ElementsAre(1));
  EXPECT_TRUE(read.groups[0][1].grows);
  EXPECT_EQ(read.groups[0][1].ring, 64);
  EXPECT_THAT(read.groups[0][1].heads, ElementsAre(0));
  ASSERT_EQ(read.groups[1].size(), 2U);
  EXPECT_EQ(read.groups[1][0].ring, 256);
  EXPECT_TRUE(read.groups[1][1].grows);
  EXPECT_EQ(read.groups[2].size(), 1U);
}

TEST(ConversionTest, NamesTheFieldThatIsWrong) {
  const auto error = [](const auto& change) {
    json conversion = Good();
    change(conversion);
    const auto read = Read(conversion);
    return read.ok() ? "none" : std::string(read.status().message());
  };
  EXPECT_EQ(error([](json&) {}), "none");
  EXPECT_EQ(error([](json& c) { c.erase("wide"); }), "none");
  EXPECT_THAT(error([](json& c) { c = 3; }),
              HasSubstr("\"conversion\" is 3; it must be an object"));
  EXPECT_THAT(error([](json& c) { c["version"] = 2; }), HasSubstr("conversion.version"));
  EXPECT_THAT(error([](json& c) { c.erase("codes"); }), HasSubstr("conversion.codes"));
  EXPECT_THAT(error([](json& c) { c["trained_context"] = 192; }),
              HasSubstr("be a multiple of prefill_chunk, which is 128"));
  EXPECT_THAT(error([](json& c) { c["ring"] = 65; }), HasSubstr("be a multiple of 64"));
  EXPECT_THAT(error([](json& c) { c["ring"] = 320; }), HasSubstr("conversion.ring"));
  EXPECT_THAT(error([](json& c) { c["wide"] = 1; }),
              HasSubstr("\"conversion.wide\" is 1; it must be a list of objects"));
  EXPECT_THAT(error([](json& c) { c["wide"][0]["ring"] = 512; }),
              HasSubstr("conversion.wide[0].ring"));
  EXPECT_THAT(error([](json& c) { c["wide"][0]["heads"][0] = {3, 0}; }),
              HasSubstr(R"("conversion.wide[0].heads" is an array; it must be a list of pairs)"));
  EXPECT_THAT(error([](json& c) { c["wide"][0]["heads"][0] = {2, 1}; }),
              HasSubstr("conversion lists [2, 1] twice"));
  EXPECT_THAT(error([](json& c) { c["grow"] = {{0, 2}}; }), HasSubstr("conversion.grow"));
  EXPECT_THAT(error([](json& c) { c["grow"] = {{0, 0}, {2, 0}}; }),
              HasSubstr("conversion lists [2, 0] twice"));
}

}  // namespace
}  // namespace tvq
