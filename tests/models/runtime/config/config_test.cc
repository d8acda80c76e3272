#include "models/runtime/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <limits>
#include <map>
#include <string>
#include <vector>

#include "tests/models/runtime/temp_dir.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

constexpr char kMinimal[] = R"({"model_type": "transformer_vq", "vocab_size": 259,
                                "tokenizer": {"type": "bytes"}})";

Config Parsed(std::string_view text) {
  auto config = Config::Parse(text, "dir/config.json");
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

std::string Message(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

// The message for the minimal config with one field set to a JSON value.
std::string CommonMessage(const std::string& name, const std::string& value) {
  const std::string text = R"({"vocab_size": 16, "tokenizer": {"type": "bytes"}, )"
                           R"("model_type": "m", "extra": 0})";
  std::string changed = text;
  const std::string key = "\"" + name + "\":";
  const size_t at = changed.find(key);
  if (at == std::string::npos) {
    changed.insert(1, key + value + ",");
  } else {
    const size_t end = name == "tokenizer" ? changed.find('}', at) + 1 : changed.find(',', at);
    changed.replace(at, end - at, key + value);
  }
  return Message(Parsed(changed).Common().status());
}

TEST(ConfigTest, ReadsFieldsWithinTheirRanges) {
  const Config config = Parsed(R"({"i": 7, "whole": 3.0, "n": -0.5, "b": true, "s": "x"})");
  EXPECT_EQ(*config.Int("i", 1, 7), 7);
  EXPECT_EQ(*config.Int("whole", 0, 10), 3);
  EXPECT_EQ(*config.Number("n", -1, 0), -0.5);
  EXPECT_EQ(*config.Number("i", 0, 10), 7.0);
  EXPECT_EQ(*config.Bool("b"), true);
  EXPECT_EQ(*config.String("s"), "x");
}

TEST(ConfigTest, FallbackServesAbsentAndNullFieldsOnly) {
  const Config config = Parsed(R"({"null": null, "wrong": "x"})");
  EXPECT_EQ(*config.Int("absent", 0, 9, 5), 5);
  EXPECT_EQ(*config.Int("null", 0, 9, 5), 5);
  EXPECT_EQ(*config.Number("absent", 0, 1, 0.5), 0.5);
  EXPECT_EQ(*config.Bool("absent", false), false);
  EXPECT_EQ(*config.String("absent", "d"), "d");
  EXPECT_FALSE(config.Int("wrong", 0, 9, 5).ok());
  EXPECT_FALSE(config.Bool("wrong", true).ok());
  EXPECT_FALSE(config.Has("null"));
  EXPECT_TRUE(config.Has("wrong"));
}

TEST(ConfigTest, ErrorsNameFileFieldValueAndWhatWouldBeRight) {
  const Config config = Parsed(R"({"i": -3, "f": 2.5, "s": 1, "b": 0, "big": 1e300, "o": {"i": 9},
                                   "u": 18446744073709551615})");
  EXPECT_EQ(Message(config.Int("i", 1, 64).status()),
            "dir/config.json: field \"i\" is -3; it must be an integer from 1 to 64");
  EXPECT_EQ(Message(config.Int("d_model", 1, 64).status()),
            "dir/config.json: field \"d_model\" is missing; it must be an integer from 1 to 64");
  EXPECT_THAT(Message(config.Int("f", 0, 9).status()), HasSubstr("is 2.5; it must be an integer"));
  EXPECT_THAT(Message(config.Int("big", 0, INT64_MAX).status()), HasSubstr("at least 0"));
  EXPECT_THAT(Message(config.Int("u", 0, INT64_MAX).status()), HasSubstr("18446744073709551615"));
  EXPECT_THAT(Message(config.Int("o", 0, 9).status()), HasSubstr("is an object"));
  EXPECT_THAT(Message(config.Number("s", 2, 3).status()), HasSubstr("a number from 2 to 3"));
  EXPECT_THAT(Message(config.Bool("b").status()), HasSubstr("is 0; it must be true or false"));
  EXPECT_THAT(Message(config.String("s").status()), HasSubstr("is 1; it must be a string"));
  EXPECT_THAT(Message(config.Object("o")->Int("i", 0, 8).status()),
              HasSubstr("field \"o.i\" is 9"));
  EXPECT_THAT(Message(config.Object("i").status()), HasSubstr("an object"));
}

TEST(ConfigTest, NestedObjectOutlivesItsParent) {
  std::optional<Config> nested;
  {
    const Config config = Parsed(R"({"o": {"p": {"i": 4}}})");
    nested = *config.Object("o")->Object("p");
  }
  EXPECT_EQ(*nested->Int("i", 0, 9), 4);
}

TEST(ConfigTest, CommonHasDefaults) {
  const auto common = Parsed(kMinimal).Common();
  ASSERT_TRUE(common.ok()) << common.status();
  EXPECT_EQ(common->model_type, "transformer_vq");
  EXPECT_EQ(common->vocab_size, 259);
  EXPECT_EQ(common->prefill_chunk, 256);
  EXPECT_EQ(common->max_position, 0);
  EXPECT_FALSE(common->eos_token_id.has_value());
  EXPECT_EQ(common->tokenizer.type, "bytes");
}

TEST(ConfigTest, CommonReadsEveryField) {
  const auto common = Parsed(R"({"model_type": "m", "vocab_size": 16, "prefill_chunk": 64,
      "max_position": 1000, "pad_token_id": 0, "bos_token_id": null, "eos_token_id": 15,
      "unk_token_id": 2, "ignored": {"x": []},
      "tokenizer": {"type": "pixels", "height": 14, "width": 28, "channels": 3, "levels": 16}})")
                          .Common();
  ASSERT_TRUE(common.ok()) << common.status();
  EXPECT_EQ(common->prefill_chunk, 64);
  EXPECT_EQ(common->max_position, 1000);
  EXPECT_EQ(common->pad_token_id, 0);
  EXPECT_EQ(common->bos_token_id, std::nullopt);
  EXPECT_EQ(common->eos_token_id, 15);
  EXPECT_EQ(common->unk_token_id, 2);
  EXPECT_EQ(common->tokenizer.height, 14);
  EXPECT_EQ(common->tokenizer.width, 28);
  EXPECT_EQ(common->tokenizer.channels, 3);
  EXPECT_EQ(common->tokenizer.levels, 16);
}

TEST(ConfigTest, CommonRefusesWrongFields) {
  EXPECT_THAT(CommonMessage("vocab_size", "0"), HasSubstr("\"vocab_size\" is 0"));
  EXPECT_THAT(CommonMessage("vocab_size", "16777217"), HasSubstr("\"vocab_size\""));
  EXPECT_THAT(CommonMessage("vocab_size", "\"16\""), HasSubstr("is \"16\"; it must be an integer"));
  EXPECT_THAT(CommonMessage("model_type", "3"), HasSubstr("\"model_type\" is 3"));
  EXPECT_THAT(CommonMessage("prefill_chunk", "0"), HasSubstr("\"prefill_chunk\" is 0"));
  EXPECT_THAT(CommonMessage("max_position", "-1"), HasSubstr("\"max_position\" is -1"));
  EXPECT_THAT(CommonMessage("eos_token_id", "16"), HasSubstr("an integer from 0 to 15"));
  EXPECT_THAT(CommonMessage("bos_token_id", "-1"), HasSubstr("\"bos_token_id\" is -1"));
  EXPECT_THAT(CommonMessage("tokenizer", "null"), HasSubstr("\"tokenizer\" is missing"));
  EXPECT_THAT(CommonMessage("tokenizer", "{}"), HasSubstr("\"tokenizer.type\" is missing"));
  EXPECT_THAT(CommonMessage("tokenizer", R"({"type": "words"})"),
              HasSubstr("is \"words\"; it must be one of bytes, sentencepiece"));
  EXPECT_THAT(CommonMessage("tokenizer", R"({"type": "characters"})"),
              HasSubstr("\"tokenizer.file\" is missing"));
  EXPECT_THAT(CommonMessage("tokenizer", R"({"type": "pixels", "height": 1, "width": 1})"),
              HasSubstr("\"tokenizer.channels\" is missing"));
}

TEST(ConfigTest, TokenizerFileMayNotLeaveTheDirectory) {
  for (const char* file : {"../x.model", "/etc/passwd", "a/b", "", ".", "..", "a\\u0000b"}) {
    const std::string tokenizer =
        std::string(R"({"type": "sentencepiece", "file": ")") + file + "\"}";
    EXPECT_THAT(CommonMessage("tokenizer", tokenizer), HasSubstr("\"tokenizer.file\" is")) << file;
  }
}

TEST(ConfigTest, LoadReadsTheFileOfADirectory) {
  const fixtures::TempDir dir;
  EXPECT_EQ(Config::Load(dir.path()).status().code(), absl::StatusCode::kNotFound);
  dir.Write("config.json", kMinimal);
  const auto config = Config::Load(dir.path());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->source(), dir.path() + "/config.json");
}

TEST(ConfigTest, LoadFindsTheTokenizersFile) {
  const fixtures::TempDir dir;
  dir.Write("config.json", R"({"model_type": "m", "vocab_size": 8, "pad_token_id": -1})");
  const auto type = [&] { return Config::Load(dir.path())->Common()->tokenizer.type; };
  EXPECT_EQ(type(), "ids");
  EXPECT_EQ(Config::Load(dir.path())->Common()->pad_token_id, std::nullopt);
  dir.Write("tokenizer.model", "");
  EXPECT_THAT(Message(Config::Load(dir.path()).status()),
              HasSubstr("has tokenizer.model and no tokenizer.json"));
  dir.Write("rwkv_vocab_v20230424.txt", "");
  EXPECT_EQ(type(), "rwkv");
  dir.Write("tokenizer.json", "");
  EXPECT_EQ(type(), "huggingface");
}

TEST(ConfigTest, LoadRefusesWhatIsNoSmallRegularFile) {
  const fixtures::TempDir dir;
  const std::string path = dir.Write("config.json", std::string(2 << 20, ' '));
  EXPECT_THAT(Message(Config::Load(dir.path()).status()), HasSubstr("the largest accepted"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(Message(Config::Load(dir.path()).status()), HasSubstr("not a regular file"));
  std::filesystem::remove(path);
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);  // an open that waits for a writer would hang here
  EXPECT_THAT(Message(Config::Load(dir.path()).status()), HasSubstr("not a regular file"));
}

TEST(ConfigTest, LoadSaysWhatMakesADirectoryOfAFile) {
  const fixtures::TempDir dir;
  const std::string gguf = dir.Write("model.gguf", "GGUF"), native = dir.Write("model.pth", ""),
                    other = dir.Write("model.bin", "");
  EXPECT_EQ(Message(Config::Load(gguf).status()),
            gguf + " is a GGUF file, must be a model directory: scripts/import-gguf " + gguf +
                " DIR makes one of it");
  EXPECT_EQ(Message(Config::Load(native).status()),
            native + " is a file of PyTorch, must be a model directory: for a file of RWKV-7 " +
                "scripts/import-rwkv " + native + " DIR makes one of it");
  EXPECT_EQ(Message(Config::Load(other).status()), other + " is a file, must be a model directory");
}

// Python's json writes infinity as no JSON has it.
TEST(ConfigTest, LoadReadsInfinityAsPythonWritesIt) {
  const fixtures::TempDir dir;
  dir.Write("config.json", R"({"limit": [0.5, Infinity], "said": "Infinity, \"Infinity\"",
                               "newer": [1, {"__float__": "Infinity"}],
                               "tokenizer": {"type": "ids"}})");
  const auto config = Config::Load(dir.path());
  ASSERT_TRUE(config.ok()) << config.status();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(config->Numbers("limit", 0, kInfinity).value(), (std::vector<double>{0.5, kInfinity}));
  EXPECT_EQ(config->Numbers("newer", 0, kInfinity).value(), (std::vector<double>{1, kInfinity}));
  EXPECT_EQ(config->Numbers("absent", 0, 1).value(), std::vector<double>());
  EXPECT_EQ(config->String("said").value(), "Infinity, \"Infinity\"");
  for (const char* wrong : {"said", "limit"}) {
    EXPECT_THAT(Message(config->Numbers(wrong, 0, 1).status()),
                HasSubstr("a list of numbers from 0 to 1"));
  }
}

TEST(ConfigTest, EveryTruncationIsRefused) {
  const std::string text = kMinimal;
  for (size_t size = 0; size < text.size(); ++size) {
    EXPECT_FALSE(Config::Parse(text.substr(0, size), "c").ok()) << size;
  }
}

const std::vector<DefaultField> kDefaultFields = {
    {.name = "heat", .names = {"heat"}, .min = 0, .max = 2},
    {.name = "limit", .names = {"new_limit", "limit"}, .min = 1, .max = 1000, .whole = true}};

absl::StatusOr<GenerationDefaults> Defaults(const fixtures::TempDir& dir,
                                            const CommonConfig& common = {.vocab_size = 16}) {
  return LoadGenerationDefaults(dir.path(), common, kDefaultFields);
}

TEST(GenerationDefaultsTest, AbsentFileLeavesAllUnset) {
  const fixtures::TempDir dir;
  const auto defaults = Defaults(dir);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_TRUE(defaults->numbers.empty());
}

TEST(GenerationDefaultsTest, ReadsWhatIsAskedForAndIgnoresOthers) {
  const fixtures::TempDir dir;
  dir.Write("generation_config.json", R"({"heat": 0.05, "limit": 64, "do_sample": true})");
  const auto defaults = Defaults(dir);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->numbers, (std::map<std::string, double>{{"heat", 0.05}, {"limit", 64}}));
}

TEST(GenerationDefaultsTest, OfSeveralNamesTheLastCounts) {
  const fixtures::TempDir dir;
  const auto limit = [&](const std::string& json) {
    dir.Write("generation_config.json", json);
    return Defaults(dir)->numbers["limit"];
  };
  EXPECT_EQ(limit(R"({"new_limit": 5})"), 5);
  EXPECT_EQ(limit(R"({"limit": 7, "new_limit": 5})"), 7);
}

TEST(GenerationDefaultsTest, RefusesValuesOutOfRange) {
  const fixtures::TempDir dir;
  for (const char* field : {"\"heat\": -0.1", "\"heat\": 2.5", "\"limit\": 0", "\"limit\": 1001",
                            "\"new_limit\": 1.5", "\"limit\": \"5\"", "\"heat\": []"}) {
    dir.Write("generation_config.json", std::string("{") + field + "}");
    EXPECT_THAT(Message(Defaults(dir).status()), HasSubstr("generation_config.json: field"))
        << field;
  }
}

TEST(GenerationDefaultsTest, SaysHowContextsBegin) {
  const fixtures::TempDir dir;
  dir.Write("generation_config.json", R"({"bos_token_id": 15, "add_bos_token": true})");
  const auto defaults = Defaults(dir);
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->bos_token_id, 15);
  EXPECT_TRUE(defaults->add_bos_token);
  dir.Write("generation_config.json", R"({"bos_token_id": null, "top_k": 1})");
  const auto without = Defaults(dir, {.vocab_size = 16, .bos_token_id = 3});
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_EQ(without->bos_token_id, std::nullopt);
  EXPECT_FALSE(without->add_bos_token);
}

TEST(GenerationDefaultsTest, RefusesToAddATokenThatThereIsNot) {
  const fixtures::TempDir dir;
  const auto message = [&](const char* text, const CommonConfig& common) {
    dir.Write("generation_config.json", text);
    return Message(Defaults(dir, common).status());
  };
  EXPECT_THAT(message(R"({"bos_token_id": 16})", {.vocab_size = 16}),
              HasSubstr("\"bos_token_id\" is 16; it must be an integer from 0 to 15"));
  EXPECT_THAT(message(R"({"add_bos_token": 1})", {.vocab_size = 16}),
              HasSubstr("\"add_bos_token\" is 1; it must be true or false"));
  EXPECT_THAT(
      message(R"({"add_bos_token": true})", {.vocab_size = 16}),
      HasSubstr("\"add_bos_token\" is true; it must be false, or this file or config.json"));
  EXPECT_TRUE(Defaults(dir, {.vocab_size = 16, .bos_token_id = 3}).ok());
}

}  // namespace
}  // namespace tvq
