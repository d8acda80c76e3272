#ifndef TVQ_MODELS_RUNTIME_TEXT_LOAD_TEXT_H_
#define TVQ_MODELS_RUNTIME_TEXT_LOAD_TEXT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "models/runtime/text/conversation_writer.h"
#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// What a model directory says about texts, apart from its tokenizer.
struct DirectoryText {
  std::optional<int32_t> begin_id;                          // put before every text; unset: none
  std::shared_ptr<const ConversationWriter> conversations;  // nullptr: no chat templates
};

// Empty if the tokenizer is not read from a tokenizer.json.
absl::StatusOr<DirectoryText> LoadDirectoryText(const std::string& dir, const Tokenizer& tokenizer);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_LOAD_TEXT_H_
