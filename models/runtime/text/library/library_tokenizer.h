// A C++ wrapper of the text library's tokenizer.
#ifndef TVQ_MODELS_RUNTIME_TEXT_LIBRARY_LIBRARY_TOKENIZER_H_
#define TVQ_MODELS_RUNTIME_TEXT_LIBRARY_LIBRARY_TOKENIZER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/text/library/text_library.h"

namespace tvq {

// The status for the code that a function of the library returned and the reason that its error
// sink received.
absl::Status TextLibraryStatus(int32_t code, const std::string& reason);

// Sinks for the library that assign to `text` or `ids`.
TvqTextSink SinkOf(std::string* text);
TvqTextIdSink SinkOf(std::vector<int32_t>* ids);

inline TvqText TextOf(std::string_view text) { return {text.data(), text.size()}; }

// Immutable; all methods may be called from any thread.
class LibraryTokenizer {
 public:
  // `json` is the content of a tokenizer.json.
  static absl::StatusOr<std::unique_ptr<const LibraryTokenizer>> Open(std::string_view json);
  ~LibraryTokenizer();
  LibraryTokenizer(const LibraryTokenizer&) = delete;
  LibraryTokenizer& operator=(const LibraryTokenizer&) = delete;

  const TvqTextTokenizerInfo& info() const { return info_; }

  absl::Status Tokens(const std::function<void(const TvqTextToken&)>& each) const;
  std::optional<int32_t> IdOf(std::string_view token) const;
  // Encodes as Hugging Face's `tokenizers` does, and adds no special tokens. `plain`: text that
  // spells a special token does not become one.
  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text, bool plain = false) const;
  // Leaves special tokens out.
  absl::StatusOr<std::string> Decode(std::span<const int32_t> ids) const;

  const TvqTextTokenizer* handle() const { return handle_; }

 private:
  LibraryTokenizer(TvqTextTokenizer* handle, const TvqTextTokenizerInfo& info)
      : handle_(handle), info_(info) {}

  TvqTextTokenizer* const handle_;
  const TvqTextTokenizerInfo info_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TEXT_LIBRARY_LIBRARY_TOKENIZER_H_
