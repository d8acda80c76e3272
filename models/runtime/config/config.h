#ifndef TVQ_MODELS_RUNTIME_CONFIG_CONFIG_H_
#define TVQ_MODELS_RUNTIME_CONFIG_CONFIG_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tvq {

// The `tokenizer` object of config.json. Fields a type does not use keep their defaults.
struct TokenizerConfig {
  std::string type;      // bytes, sentencepiece, huggingface, rwkv, characters, pixels, ids
  std::string file;      // a plain name inside the model directory; empty for bytes, pixels and ids
  int64_t first_id = 3;  // characters: id of the file's first line
  int64_t height = 0;    // pixels: the image's size
  int64_t width = 0;
  int64_t channels = 0;
  int64_t levels = 0;
};

// What every family's config.json has.
struct CommonConfig {
  std::string model_type;
  int64_t vocab_size = 0;
  int64_t prefill_chunk = 256;
  int64_t max_position = 0;  // or config.json's max_position_embeddings; 0: no limit
  std::optional<int32_t> pad_token_id;
  std::optional<int32_t> bos_token_id;
  std::optional<int32_t> eos_token_id;  // the first if config.json has a list
  std::optional<int32_t> unk_token_id;
  std::vector<int32_t> more_end_ids;  // the others of that list
  TokenizerConfig tokenizer;
};

// A checked view of config.json. A field is read by name with the range it must lie in; every error
// is INVALID_ARGUMENT and says which file and field is wrong and what would be right. A field given
// as null counts as absent. Unknown fields are ignored. Immutable, hence thread-safe; cheap to
// copy.
class Config {
 public:
  // Reads DIR/config.json. NOT_FOUND if there is none, INVALID_ARGUMENT if DIR is a file. A file of
  // Hugging Face has no `tokenizer` field. If the field is missing, the tokenizer file in DIR sets
  // it: tokenizer.json, or RWKV's vocabulary. If DIR has neither, the type is ids.
  static absl::StatusOr<Config> Load(const std::string& dir);

  // `source_name` stands for the file in error messages.
  static absl::StatusOr<Config> Parse(std::string_view json, std::string source_name);

  // `min` and `max` are inclusive. Without a fallback the field is required. An integral number
  // written as 3.0 is accepted by Int.
  absl::StatusOr<int64_t> Int(std::string_view name, int64_t min, int64_t max,
                              std::optional<int64_t> fallback = {}) const;
  absl::StatusOr<double> Number(std::string_view name, double min, double max,
                                std::optional<double> fallback = {}) const;
  absl::StatusOr<bool> Bool(std::string_view name, std::optional<bool> fallback = {}) const;
  absl::StatusOr<std::string> String(std::string_view name,
                                     std::optional<std::string> fallback = {}) const;
  // A list of strings, none of them empty; an empty list if the field is absent.
  absl::StatusOr<std::vector<std::string>> Strings(std::string_view name) const;
  // A list of numbers from `min` to `max`, which may be infinite; an empty list if the field is
  // absent. Infinity is written as Python's json does, or as {"__float__": "Infinity"}.
  absl::StatusOr<std::vector<double>> Numbers(std::string_view name, double min, double max) const;
  // Token ids below `vocab_size`: a number, or a list of them; an empty list if the field is
  // absent.
  absl::StatusOr<std::vector<int32_t>> Ids(std::string_view name, int64_t vocab_size) const;

  // True if the field is there and not null.
  bool Has(std::string_view name) const;
  // True if the field is there and null. For a few fields that differs from an absent field.
  bool Null(std::string_view name) const;

  // A list of pairs [a, b] of integers, 0 <= a < first and 0 <= b < second; an empty list if the
  // field is absent.
  absl::StatusOr<std::vector<std::array<int64_t, 2>>> Pairs(std::string_view name, int64_t first,
                                                            int64_t second) const;

  // A nested object, as a Config whose errors name "outer.field".
  absl::StatusOr<Config> Object(std::string_view name) const;
  // A list of nested objects, whose errors name "outer[2].field"; empty if the field is absent.
  absl::StatusOr<std::vector<Config>> Objects(std::string_view name) const;

  // This object, with the fields of `other` that it lacks: all, or those of `names`.
  Config Completed(const Config& other) const;
  Config Completed(const Config& other, std::span<const char* const> names) const;
  // This object, with the field set to `value`.
  Config With(std::string_view name, const nlohmann::json& value) const;

  absl::StatusOr<CommonConfig> Common() const;

  // The object as text that does not depend on the order of fields, on white space, on fields given
  // as null, or on whether an integral number is written 3 or 3.0.
  std::string Canonical() const;

  // The file, for error messages.
  const std::string& source() const { return source_; }

 private:
  Config(std::shared_ptr<const nlohmann::json> object, std::string source, std::string prefix);
  const nlohmann::json* Find(std::string_view name) const;
  absl::Status Error(std::string_view name, std::string_view wanted) const;
  absl::StatusOr<TokenizerConfig> Tokenizer() const;

  std::shared_ptr<const nlohmann::json> object_;
  std::string source_;
  std::string prefix_;  // "" or "outer."
};

// How a conversation is written for a model: each message is the prefix of its role, its content
// and the suffix of its role. The prefix of the assistant comes last, and the model continues
// there.
struct ChatTemplate {
  struct Role {
    std::string prefix;
    std::string suffix;
  };
  std::optional<Role> system;  // unset: the model has no system messages
  Role user;
  Role assistant;
  std::vector<std::string> stop;  // strings that end an answer
};

// A number that generation_config.json may have: the default of a sampling parameter.
struct DefaultField {
  std::string name;                // of the parameter
  std::vector<std::string> names;  // in the file; the last that is there counts
  double min = 0;
  double max = 0;  // both included
  bool whole = false;
};

// generation_config.json: defaults of sampling parameters, and how contexts begin (begin_id.h).
// Where a parameter has no default here, the server's own holds.
struct GenerationDefaults {
  std::map<std::string, double> numbers;      // by the parameter's name
  std::optional<ChatTemplate> chat_template;  // unset: the file has none
  std::optional<int32_t> bos_token_id;        // unset: config.json's
  std::vector<int32_t> end_ids;               // eos_token_id; empty: config.json's
  bool add_bos_token = false;
};

// Reads DIR/generation_config.json, and of its numbers those of `fields`; all unset if there is no
// such file. `common` is what DIR/config.json says.
absl::StatusOr<GenerationDefaults> LoadGenerationDefaults(const std::string& dir,
                                                          const CommonConfig& common,
                                                          std::span<const DefaultField> fields);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_CONFIG_CONFIG_H_
