// Writes conversations for a model with a tokenizer.json.
#ifndef TVQ_MODELS_RUNTIME_TEXT_TEMPLATE_WRITER_H_
#define TVQ_MODELS_RUNTIME_TEXT_TEMPLATE_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/text/conversation_writer.h"
#include "models/runtime/text/library/text_library.h"
#include "models/runtime/text/tokenizer_settings.h"
#include "models/runtime/tokenizer/hugging_face_tokenizer.h"

namespace tvq {

class TemplateWriter : public ConversationWriter {
 public:
  // Errors name the file and the line of a template. Shares ownership of what it needs of the
  // tokenizer.
  static absl::StatusOr<std::shared_ptr<const ConversationWriter>> Make(
      const TokenizerSettings& settings, const HuggingFaceTokenizer& tokenizer);
  ~TemplateWriter() override;
  TemplateWriter(const TemplateWriter&) = delete;
  TemplateWriter& operator=(const TemplateWriter&) = delete;

  absl::StatusOr<Conversation> Write(const ConversationRequest& request) const override;
  absl::StatusOr<Continuation> Continue(const Conversation& conversation,
                                        std::span<const int32_t> context) const override;
  std::vector<std::string> names() const override { return names_; }

 private:
  TemplateWriter(const TvqTextTemplates* templates, std::vector<std::string> names,
                 const HuggingFaceTokenizer& tokenizer);

  absl::StatusOr<std::vector<int32_t>> RestWithinToken(std::span<const int32_t> ids,
                                                       size_t skipped) const;

  const TvqTextTemplates* const templates_;
  const std::vector<std::string> names_;
  const std::shared_ptr<const LibraryTokenizer> library_;
  // By id: the bytes of the token; for a special token, bytes that no other token has.
  std::vector<std::string> shown_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_TEMPLATE_WRITER_H_
