#include "models/runtime/fingerprint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "models/runtime/registry/registry.h"
#include "tests/models/runtime/random_weights.h"
#include "tests/models/runtime/safetensors_bytes.h"
#include "tests/models/runtime/temp_dir.h"

namespace tvq {
namespace {

using fixtures::SafetensorsBytes;
using fixtures::TempDir;

Config ParsedModel(std::string_view text) { return Config::Parse(text, "config.json").value(); }

std::string Header(const std::string& name, const std::string& dtype, const std::string& shape,
                   int begin = 0) {
  return "\"" + name + "\": {\"dtype\": \"" + dtype + "\", \"shape\": " + shape +
         ", \"data_offsets\": [" + std::to_string(begin) + ", " + std::to_string(begin + 8) + "]}";
}

std::string DigestOfFile(const std::string& header, const std::string& data) {
  const TempDir dir;
  dir.Write("model.safetensors", SafetensorsBytes("{" + header + "}", data));
  auto weights = OpenWeights(dir.path());
  EXPECT_TRUE(weights.ok()) << weights.status();
  return (*weights)->Digest();
}

TEST(FingerprintTest, WeightsCountByNameDTypeShapeAndBytes) {
  const std::string digest = DigestOfFile(Header("w", "F32", "[2, 1]"), "01234567");
  EXPECT_THAT(digest, ::testing::MatchesRegex("[0-9a-f]{32}"));
  EXPECT_NE(digest, DigestOfFile(Header("v", "F32", "[2, 1]"), "01234567"));
  EXPECT_NE(digest, DigestOfFile(Header("w", "I32", "[2, 1]"), "01234567"));
  EXPECT_NE(digest, DigestOfFile(Header("w", "F32", "[1, 2]"), "01234567"));
  EXPECT_NE(digest, DigestOfFile(Header("w", "F32", "[2, 1]"), "01234568"));
  EXPECT_EQ(digest,
            DigestOfFile(Header("w", "F32", "[2, 1]") + ", \"__metadata__\": {\"a\": \"b\"}",
                         "01234567"));
}

TEST(FingerprintTest, OrderInTheFileAndShardsDoNotCount) {
  const std::string whole = DigestOfFile(
      Header("a", "F32", "[2]") + ", " + Header("b", "F32", "[2]", 8), "aaaaaaaabbbbbbbb");
  EXPECT_EQ(whole, DigestOfFile(Header("a", "F32", "[2]", 8) + ", " + Header("b", "F32", "[2]"),
                                "bbbbbbbbaaaaaaaa"));
  const TempDir dir;
  dir.Write("s1.safetensors", SafetensorsBytes("{" + Header("b", "F32", "[2]") + "}", "bbbbbbbb"));
  dir.Write("s2.safetensors", SafetensorsBytes("{" + Header("a", "F32", "[2]") + "}", "aaaaaaaa"));
  dir.Write("model.safetensors.index.json",
            R"({"weight_map": {"a": "s2.safetensors", "b": "s1.safetensors"}})");
  auto weights = OpenWeights(dir.path());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ((*weights)->Digest(), whole);
}

TEST(FingerprintTest, ConfigCountsByItsMeaning) {
  const auto weights = RandomWeights(1);
  const std::string one =
      Fingerprint(ParsedModel(R"({"a": 3, "b": [1, null], "c": {"x": 0.5}})"), *weights, "");
  EXPECT_EQ(one, Fingerprint(ParsedModel(R"({ "c": {"y": null, "x": 5e-1},"b":[1.0,null], "a" : 3.0,
                                         "d": null})"),
                             *weights, ""));
  EXPECT_NE(one,
            Fingerprint(ParsedModel(R"({"a": 4, "b": [1, null], "c": {"x": 0.5}})"), *weights, ""));
  EXPECT_NE(one,
            Fingerprint(ParsedModel(R"({"a": 3, "b": [null, 1], "c": {"x": 0.5}})"), *weights, ""));
}

TEST(FingerprintTest, SeedAndTokenizerFileCount) {
  const Config config = ParsedModel("{}");
  const std::string one = Fingerprint(config, *RandomWeights(1), "pieces");
  EXPECT_EQ(one, Fingerprint(config, *RandomWeights(1), "pieces"));
  EXPECT_NE(one, Fingerprint(config, *RandomWeights(2), "pieces"));
  EXPECT_NE(one, Fingerprint(config, *RandomWeights(1), "pieceS"));
}

std::string FingerprintOf(const std::string& dir, DType dtype) {
  LoadOptions options;
  options.device = MakeDevice("cpu", 1).value();
  options.dtype = dtype;
  auto model = LoadModel(dir, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return (*model)->info().fingerprint;
}

// The value is part of every stored snapshot: if it changes, no snapshot of before can be loaded.
TEST(FingerprintTest, IsTheSameForEverAndForEveryDType) {
  constexpr char kExpected[] = "d671438892faba348c1cc0f22c0b3b19";
  EXPECT_EQ(FingerprintOf("tests/golden/heads_unequal", DType::kFloat32), kExpected);
  EXPECT_EQ(FingerprintOf("tests/golden/heads_unequal", DType::kBFloat16), kExpected);
}

TEST(FingerprintTest, ReadsTheTokenizersFile) {
  const TempDir dir;
  const std::filesystem::path copy = std::filesystem::path(dir.path()) / "model";
  std::filesystem::copy("tests/golden/pieces_tied", copy);
  const std::string before = FingerprintOf(copy, DType::kFloat32);
  EXPECT_EQ(before, FingerprintOf("tests/golden/pieces_tied", DType::kFloat32));
  for (const auto& entry : std::filesystem::directory_iterator(copy)) {
    if (entry.path().extension() != ".model") continue;
    // An unknown field of the protocol buffer: the tokenizer stays the same, its bytes do not.
    std::ofstream(entry.path(), std::ios::binary | std::ios::app) << std::string("\xa2\x1f\x01x");
  }
  EXPECT_NE(before, FingerprintOf(copy, DType::kFloat32));
}

}  // namespace
}  // namespace tvq
