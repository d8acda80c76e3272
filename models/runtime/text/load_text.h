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

// What a directory says of texts beside its tokenizer.
struct DirectoryText {
  std::optional<int32_t> begin_id;                          // put before every text; unset: none
  std::shared_ptr<const ConversationWriter> conversations;  // nullptr: no chat templates
};

// Nothing where the tokenizer is not a tokenizer.json.
absl::StatusOr<DirectoryText> LoadDirectoryText(const std::string& dir, const Tokenizer& tokenizer);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_LOAD_TEXT_H_
