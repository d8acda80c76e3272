#include "models/runtime/registry/text_part.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "models/runtime/registry/registry.h"
#include "models/runtime/safetensors.h"
#include "tests/models/runtime/safetensors_bytes.h"
#include "tests/models/runtime/temp_dir.h"
#include "tests/models/runtime/tokenizer/golden_texts.h"

namespace tvq {
namespace {

using fixtures::TempDir;
using nlohmann::json;
using ::testing::HasSubstr;

constexpr char kModel[] = "qwen3_tied";

absl::StatusOr<std::unique_ptr<Model>> Load(const std::string& dir) {
  LoadOptions options;
  options.device = MakeDevice("cpu", 1).value();
  return LoadModel(dir, options);
}

std::string Refusal(const TempDir& dir) {
  const auto model = Load(dir.path());
  return model.ok() ? "none" : std::string(model.status().message());
}

// The golden model's weights: "model." is `prefix`, and beside them are `others` of one number.
void WriteWeights(const TempDir& dir, const std::string& prefix,
                  const std::vector<std::string>& others) {
  const auto file =
      SafetensorsFile::Open(fixtures::GoldenFolder(kModel) + "/model.safetensors").value();
  json header;
  std::string data;
  const auto add = [&](const std::string& name, const HostTensor& tensor) {
    const size_t begin = data.size();
    data.append(static_cast<const char*>(tensor.data), tensor.ByteSize());
    header[name] = {{"dtype", DTypeName(tensor.dtype)},
                    {"shape", tensor.shape},
                    {"data_offsets", {begin, data.size()}}};
  };
  for (const auto& [name, tensor] : file->tensors()) {
    ASSERT_TRUE(name.starts_with("model.")) << name;
    add(prefix + name.substr(6), tensor);
  }
  const float number = 1;
  for (const std::string& name : others) add(name, {.data = &number, .shape = {1}});
  dir.Write("model.safetensors", fixtures::SafetensorsBytes(header.dump(), data));
}

json TextConfigJson() { return fixtures::GoldenJson(kModel, "config.json"); }

void WriteConfig(const TempDir& dir, const json& config) {
  dir.Write("config.json", config.dump());
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"}) {
    dir.Write(file, fixtures::GoldenFile(kModel, file));
  }
}

std::vector<float> LogitsAfter(Model& model, const std::vector<int32_t>& tokens) {
  const auto state = model.NewState().value();
  Logits logits = model.NewLogits(1).value();
  const PrefillChunk chunk = {.state = state.get(), .tokens = tokens, .logits_row = 0};
  EXPECT_TRUE(model.Prefill(chunk, &logits).ok());
  std::vector<float> row(static_cast<size_t>(model.info().config.vocab_size));
  EXPECT_TRUE(model.ReadLogits(logits, 0, row).ok());
  return row;
}

void ExpectTheGoldenModel(const TempDir& dir, const std::string& left_out) {
  const auto part = Load(dir.path());
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ((*part)->info().left_out, left_out);
  EXPECT_EQ((*part)->info().family, "qwen3");
  const auto alone = Load(fixtures::GoldenFolder(kModel)).value();
  EXPECT_EQ(alone->info().left_out, "");
  const std::vector<int32_t> tokens = {5, 700, 31, 31, 2, 99};
  EXPECT_EQ(LogitsAfter(**part, tokens), LogitsAfter(*alone, tokens));
}

TEST(TextPartTest, IsTheModelOfTextAlone) {
  json text = TextConfigJson();
  text["model_type"] = "qwen3_vl_text";
  text["rope_parameters"]["mrope_section"] = {6, 5, 5};
  const TempDir dir;
  WriteConfig(
      dir, {{"model_type", "qwen3_vl"}, {"text_config", text}, {"vision_config", {{"depth", 3}}}});
  WriteWeights(
      dir, "model.language_model.",
      {"model.visual.patch_embed.weight", "model.visual.blocks.0.weight", "merger.weight"});
  ExpectTheGoldenModel(dir,
                       "the text part of qwen3_vl, without 3 other tensors: merger, model.visual");
}

TEST(TextPartTest, HasFieldsOutsideItsObject) {
  json text = TextConfigJson();
  text.erase("tie_word_embeddings");
  const TempDir dir;
  WriteConfig(dir, {{"model_type", "llava"}, {"tie_word_embeddings", true}, {"text_config", text}});
  WriteWeights(dir, "language_model.model.", {"vision_tower.weight"});
  ExpectTheGoldenModel(dir, "the text part of llava, without 1 other tensors: vision_tower");
}

TEST(TextPartTest, LeavesOutWhatItsFamilySays) {
  const Config whole = Config::Parse(R"({"model_type": "llava", "quantization_config": {},
      "text_config": {"model_type": "llama", "num_hidden_layers": 2}})",
                                     "config.json")
                           .value();
  const Config text = TextConfig(whole).value();
  EXPECT_EQ(*text.Int("hidden_size", 0, 1 << 20), 4096);
  EXPECT_EQ(*text.Int("num_hidden_layers", 0, 1 << 20), 2);
  EXPECT_TRUE(text.Has("quantization_config")) << "so that it is refused";
}

TEST(TextPartTest, AHeadWithinThePartIsItsOwn) {
  json text = TextConfigJson();
  text["tie_word_embeddings"] = false;
  const TempDir dir;
  WriteConfig(dir, {{"model_type", "llava"}, {"text_config", text}});
  WriteWeights(dir, "language_model.model.", {"language_model.lm_head.weight"});
  EXPECT_THAT(Refusal(dir), HasSubstr("tensor \"language_model.lm_head.weight\" has shape [1]"));
}

TEST(TextPartTest, ATensorOfThePartThatHasNoUseIsRefused) {
  const TempDir dir;
  WriteConfig(dir, {{"model_type", "llava"}, {"text_config", TextConfigJson()}});
  WriteWeights(dir, "language_model.model.",
               {"language_model.model.layers.0.self_attn.q_proj.bias", "vision_tower.weight"});
  EXPECT_THAT(Refusal(dir), HasSubstr("has no use for 1 tensor of its weights: "
                                      "\"model.layers.0.self_attn.q_proj.bias\" (" +
                                      dir.path() + "/model.safetensors, from byte "));
}

TEST(TextPartTest, WhatIsNotTextOrIsSeveralIsRefused) {
  const TempDir dir;
  WriteConfig(dir, {{"model_type", "llava"}, {"text_config", TextConfigJson()}});
  WriteWeights(dir, "a.", {"b.embed_tokens.weight", "old_embed_tokens.weight"});
  EXPECT_THAT(Refusal(dir), HasSubstr("describes a llava, whose text part must have one tensor of "
                                      "the name embed_tokens.weight; its weights have 2, behind "
                                      "a., b."));
}

TEST(TextPartTest, WhatTheTwoObjectsSayMustBeTheSame) {
  const TempDir dir;
  WriteConfig(
      dir,
      {{"model_type", "llava"}, {"tie_word_embeddings", false}, {"text_config", TextConfigJson()}});
  EXPECT_THAT(Refusal(dir), HasSubstr("tie_word_embeddings is true in text_config and false "
                                      "outside it, must be the same"));
}

TEST(TextPartTest, AnUnknownModelOfTextIsRefusedByName) {
  json text = TextConfigJson();
  text["model_type"] = "gemma3_text";
  const TempDir dir;
  WriteConfig(dir, {{"model_type", "gemma3"}, {"text_config", text}});
  WriteWeights(dir, "language_model.model.", {});
  EXPECT_THAT(Refusal(dir), HasSubstr("model_type is \"gemma3_text\", must be one of: "));
}

TEST(TextPartTest, OlderOnesDescribeBothInOneObject) {
  json config = TextConfigJson();
  config["model_type"] = "qwen2_5_vl";
  config["vision_config"] = {{"depth", 3}};
  config["rope_scaling"] = {{"type", "mrope"}, {"mrope_section", {2, 3, 3}}};
  const Config whole = Config::Parse(config.dump(), "config.json").value();
  const absl::StatusOr<Config> text = TextConfig(whole);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(*text->String("model_type"), "qwen2");
  EXPECT_FALSE(text->Has("vision_config"));
}

}  // namespace
}  // namespace tvq
