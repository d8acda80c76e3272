// Settings of a tokenizer from the files beside its tokenizer.json.
#ifndef TVQ_MODELS_RUNTIME_TEXT_TOKENIZER_SETTINGS_H_
#define TVQ_MODELS_RUNTIME_TEXT_TOKENIZER_SETTINGS_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace tvq {

struct ChatTemplateSource {
  std::string name;
  std::string label;  // for messages: the file and, in JSON, the field
  std::string source;
};

struct TokenizerSettings {
  std::optional<std::string> bos_token;
  std::optional<bool> add_bos_token;
  std::string named_tokens = "{}";  // JSON: bos_token, eos_token and the like, which templates read
  std::vector<ChatTemplateSource> chat_templates;
};

// Reads special_tokens_map.json, tokenizer_config.json, chat_template.jinja, chat_template.json and
// additional_chat_templates/NAME.jinja of a directory, those that there are. A template in a file
// of its own replaces one of the same name in tokenizer_config.json.
absl::StatusOr<TokenizerSettings> ReadTokenizerSettings(const std::string& dir);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_TOKENIZER_SETTINGS_H_
