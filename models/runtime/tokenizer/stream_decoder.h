#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_STREAM_DECODER_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_STREAM_DECODER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "models/runtime/tokenizer/tokenizer.h"

namespace tvq {

// Turns tokens into text one at a time. A returned text never ends within a UTF-8 character, and
// the concatenation of all that Push and Finish return is Decode of the ids. Not thread-safe;
// copyable, so that a request's samples can start from one state.
class StreamDecoder {
 public:
  enum class Start {
    kText,         // the tokens begin a text: Tokenizer::StripsLeadingSpace applies
    kContinuation  // they continue one, as generated tokens continue a prompt: every space is kept
  };

  // The tokenizer must outlive the decoder.
  explicit StreamDecoder(const Tokenizer& tokenizer, Start start = Start::kText);

  // The text that this token completes; may be empty. An incomplete character (at most 3 bytes) is
  // held back; bytes that cannot become a character are returned as U+FFFD. A run of run bytes
  // (Tokenizer::IsRunByte) is held back as long as all of it may be valid. `id` must be in
  // [0, vocab_size).
  std::string Push(int32_t id);

  // The end of the text: what is held back, an incomplete character as U+FFFD. Nothing may be
  // pushed afterwards.
  std::string Finish();

 private:
  std::string PushRunByte(char byte);
  std::string EndRun();
  // The text that `bytes` complete. With `keep_space` a space at the start of the text is kept.
  std::string Show(std::string_view bytes, bool keep_space);

  const Tokenizer* tokenizer_;
  std::string held_;         // an incomplete character, at most 3 bytes
  bool first_;               // only specials without text have come so far
  bool strip_space_;         // the next text is the first and loses a leading space
  std::string run_;          // run bytes held back
  size_t run_checked_ = 0;   // how many of them are whole characters
  bool run_broken_ = false;  // the run is not valid
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_STREAM_DECODER_H_
