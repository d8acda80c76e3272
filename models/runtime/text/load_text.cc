#include "models/runtime/text/load_text.h"

#include <utility>

#include "models/runtime/text/template_writer.h"
#include "models/runtime/text/tokenizer_settings.h"
#include "models/runtime/tokenizer/hugging_face_tokenizer.h"

namespace tvq {
namespace {

std::optional<int32_t> BeginId(const TokenizerSettings& settings, const LibraryTokenizer& library) {
  if (settings.add_bos_token && !*settings.add_bos_token) return std::nullopt;
  if (settings.add_bos_token && settings.bos_token) return library.IdOf(*settings.bos_token);
  const int64_t id = library.info().begin_id;
  return id < 0 ? std::nullopt : std::optional(static_cast<int32_t>(id));
}

}  // namespace

absl::StatusOr<DirectoryText> LoadDirectoryText(const std::string& dir,
                                                const Tokenizer& tokenizer) {
  DirectoryText text;
  const auto* hugging_face = dynamic_cast<const HuggingFaceTokenizer*>(&tokenizer);
  if (hugging_face == nullptr) return text;
  const absl::StatusOr<TokenizerSettings> settings = ReadTokenizerSettings(dir);
  if (!settings.ok()) return settings.status();
  text.begin_id = BeginId(*settings, *hugging_face->library());
  if (settings->chat_templates.empty()) return text;
  auto conversations = TemplateWriter::Make(*settings, *hugging_face);
  if (!conversations.ok()) return conversations.status();
  text.conversations = *std::move(conversations);
  return text;
}

}  // namespace tvq
