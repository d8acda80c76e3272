// The text of one sample: tokens in, text that may be shown out.
#ifndef TVQ_SERVER_ENGINE_REQUEST_TEXT_STREAM_H_
#define TVQ_SERVER_ENGINE_REQUEST_TEXT_STREAM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "models/runtime/tokenizer/stream_decoder.h"
#include "models/runtime/tokenizer/tokenizer.h"
#include "server/engine/request/stop_matcher.h"

namespace tvq {

// Not thread-safe; copyable, so that the samples of a request start from one prompt.
class TextStream {
 public:
  // The tokenizer must outlive the stream.
  TextStream(const Tokenizer& tokenizer, std::shared_ptr<const StopStrings> stops,
             bool include_stop, StreamDecoder::Start start);

  // Feeds the prompt, so that the output's text is the continuation of the prompt's: a word's
  // leading space stays, a character begun in the prompt is completed. Returns the prompt's text,
  // in which stop strings do not count.
  std::string Prime(std::span<const int32_t> prompt);

  // The text that is safe to show with this token. Stop strings count only if `armed`.
  StreamPiece Push(int32_t id, bool armed);

  // Everything held back, at the end of a sample that no stop string ended.
  StreamPiece Finish(bool armed);

 private:
  StreamDecoder decoder_;
  StopMatcher matcher_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_REQUEST_TEXT_STREAM_H_
