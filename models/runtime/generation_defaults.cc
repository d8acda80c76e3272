#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/read_file.h"
#include "kernels/ops/sample.h"
#include "models/runtime/config/config.h"

namespace tvq {
namespace {

constexpr int64_t kLargestFileBytes = 1 << 20;
constexpr double kAnyNumber = std::numeric_limits<float>::max();  // requests carry float32
// Ranges that exclude zero begin here; no useful value is smaller.
constexpr double kAboveZero = 1e-9;

struct NumberField {
  const char* name;
  double min;
  double max;
  std::optional<double> GenerationDefaults::* target;
};

constexpr NumberField kNumbers[] = {
    {"temperature", 0, kAnyNumber, &GenerationDefaults::temperature},
    {"top_p", kAboveZero, 1, &GenerationDefaults::top_p},
    {"min_p", 0, 1, &GenerationDefaults::min_p},
    {"repetition_penalty", kLeastRepetitionPenalty, kMostRepetitionPenalty,
     &GenerationDefaults::repetition_penalty},
    {"presence_penalty", -2, 2, &GenerationDefaults::presence_penalty},
    {"frequency_penalty", -2, 2, &GenerationDefaults::frequency_penalty}};

struct IntegerField {
  const char* name;
  int64_t min;
  std::optional<int64_t> GenerationDefaults::* target;
};

constexpr IntegerField kIntegers[] = {
    {"top_k", -1, &GenerationDefaults::top_k},  // 0 and -1: all tokens
    {"max_new_tokens", 1, &GenerationDefaults::max_tokens},
    {"max_tokens", 1, &GenerationDefaults::max_tokens}};

absl::StatusOr<ChatTemplate::Role> ReadRole(const Config& config, std::string_view name) {
  absl::StatusOr<Config> object = config.Object(name);
  if (!object.ok()) return object.status();
  absl::StatusOr<std::string> prefix = object->String("prefix", "");
  if (!prefix.ok()) return prefix.status();
  absl::StatusOr<std::string> suffix = object->String("suffix", "");
  if (!suffix.ok()) return suffix.status();
  return ChatTemplate::Role{*std::move(prefix), *std::move(suffix)};
}

absl::StatusOr<ChatTemplate> ReadChatTemplate(const Config& config) {
  ChatTemplate result;
  absl::StatusOr<ChatTemplate::Role> user = ReadRole(config, "user");
  if (!user.ok()) return user.status();
  result.user = *std::move(user);
  absl::StatusOr<ChatTemplate::Role> assistant = ReadRole(config, "assistant");
  if (!assistant.ok()) return assistant.status();
  result.assistant = *std::move(assistant);
  if (config.Has("system")) {
    absl::StatusOr<ChatTemplate::Role> system = ReadRole(config, "system");
    if (!system.ok()) return system.status();
    result.system = *std::move(system);
  }
  absl::StatusOr<std::vector<std::string>> stop = config.Strings("stop");
  if (!stop.ok()) return stop.status();
  result.stop = *std::move(stop);
  return result;
}

absl::Status ReadTokenIds(const Config& config, const CommonConfig& common,
                          GenerationDefaults* result) {
  if (config.Has("bos_token_id")) {
    absl::StatusOr<int64_t> id = config.Int("bos_token_id", 0, common.vocab_size - 1);
    if (!id.ok()) return id.status();
    result->bos_token_id = static_cast<int32_t>(*id);
  }
  absl::StatusOr<std::vector<int32_t>> ends = config.Ids("eos_token_id", common.vocab_size);
  if (!ends.ok()) return ends.status();
  result->end_ids = *std::move(ends);
  absl::StatusOr<bool> add = config.Bool("add_bos_token", false);
  if (!add.ok()) return add.status();
  result->add_bos_token = *add;
  if (!*add || result->bos_token_id || common.bos_token_id) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(config.source(), ": field \"add_bos_token\" is true; it must be false, or this ",
                   "file or config.json must have a bos_token_id"));
}

}  // namespace

absl::StatusOr<GenerationDefaults> LoadGenerationDefaults(const std::string& dir,
                                                          const CommonConfig& common) {
  const std::string path = absl::StrCat(dir, "/generation_config.json");
  absl::StatusOr<std::string> text = ReadFile(path, kLargestFileBytes);
  if (absl::IsNotFound(text.status())) return GenerationDefaults{};
  if (!text.ok()) return text.status();
  absl::StatusOr<Config> config = Config::Parse(*text, path);
  if (!config.ok()) return config.status();

  GenerationDefaults result;
  for (const NumberField& field : kNumbers) {
    if (!config->Has(field.name)) continue;
    absl::StatusOr<double> value = config->Number(field.name, field.min, field.max);
    if (!value.ok()) return value.status();
    result.*field.target = *value;
  }
  for (const IntegerField& field : kIntegers) {
    if (!config->Has(field.name)) continue;
    absl::StatusOr<int64_t> value =
        config->Int(field.name, field.min, std::numeric_limits<int32_t>::max());
    if (!value.ok()) return value.status();
    result.*field.target = *value;
  }
  if (auto status = ReadTokenIds(*config, common, &result); !status.ok()) return status;
  if (!config->Has("chat_template")) return result;
  absl::StatusOr<Config> object = config->Object("chat_template");
  if (!object.ok()) return object.status();
  absl::StatusOr<ChatTemplate> chat_template = ReadChatTemplate(*object);
  if (!chat_template.ok()) return chat_template.status();
  result.chat_template = *std::move(chat_template);
  return result;
}

}  // namespace tvq
