// The tokenizer of a tokenizer.json.
#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_HUGGING_FACE_TOKENIZER_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_HUGGING_FACE_TOKENIZER_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/runtime/text/library/library_tokenizer.h"
#include "models/runtime/tokenizer/token_table.h"

namespace tvq {

// Encodes and decodes as Hugging Face's `tokenizers` does: text that spells a special token becomes
// that token, and special tokens are left out of decoded text.
class HuggingFaceTokenizer : public TableTokenizer {
 public:
  // `source` names the file in messages.
  static absl::StatusOr<std::unique_ptr<HuggingFaceTokenizer>> Make(std::string_view json,
                                                                    std::string_view source,
                                                                    const CommonConfig& config);

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override;
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const override;
  std::string_view FirstTokenBytes(int32_t id) const override;
  bool IsRunByte(int32_t id) const override;
  bool StripsLeadingSpace() const override { return library_->info().strips_space != 0; }
  std::string_view type() const override { return "huggingface"; }

  const std::shared_ptr<const LibraryTokenizer>& library() const { return library_; }

 private:
  // By id, what a token has beside its bytes.
  struct Forms {
    std::vector<std::string> first;  // FirstTokenBytes; empty if they never differ from TokenBytes
    std::vector<bool> run_byte;
  };

  HuggingFaceTokenizer(TokenTable table, Forms forms, int64_t vocab_size,
                       std::shared_ptr<const LibraryTokenizer> library)
      : TableTokenizer(std::move(table), vocab_size),
        forms_(std::move(forms)),
        library_(std::move(library)) {}

  const Forms forms_;
  const std::shared_ptr<const LibraryTokenizer> library_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_HUGGING_FACE_TOKENIZER_H_
