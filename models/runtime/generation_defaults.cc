#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/read_file.h"
#include "models/runtime/config/config.h"

namespace tvq {
namespace {

constexpr int64_t kLargestFileBytes = 1 << 20;
absl::StatusOr<double> Number(const Config& config, const std::string& name,
                              const DefaultField& field) {
  if (!field.whole) return config.Number(name, field.min, field.max);
  const absl::StatusOr<int64_t> whole =
      config.Int(name, static_cast<int64_t>(field.min), static_cast<int64_t>(field.max));
  if (!whole.ok()) return whole.status();
  return static_cast<double>(*whole);
}

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
                                                          const CommonConfig& common,
                                                          std::span<const DefaultField> fields) {
  const std::string path = absl::StrCat(dir, "/generation_config.json");
  absl::StatusOr<std::string> text = ReadFile(path, kLargestFileBytes);
  if (absl::IsNotFound(text.status())) return GenerationDefaults{};
  if (!text.ok()) return text.status();
  absl::StatusOr<Config> config = Config::Parse(*text, path);
  if (!config.ok()) return config.status();

  GenerationDefaults result;
  for (const DefaultField& field : fields) {
    for (const std::string& name : field.names) {
      if (!config->Has(name)) continue;
      const absl::StatusOr<double> value = Number(*config, name, field);
      if (!value.ok()) return value.status();
      result.numbers[field.name] = *value;
    }
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
