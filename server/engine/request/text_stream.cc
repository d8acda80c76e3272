#include "server/engine/request/text_stream.h"

#include <utility>

namespace tvq {

TextStream::TextStream(const Tokenizer& tokenizer, std::shared_ptr<const StopStrings> stops,
                       bool include_stop, StreamDecoder::Start start)
    : decoder_(tokenizer, start), matcher_(std::move(stops), include_stop) {}

std::string TextStream::Prime(std::span<const int32_t> prompt) {
  std::string text;
  for (int32_t id : prompt) text += decoder_.Push(id);
  return text;
}

StreamPiece TextStream::Push(int32_t id, bool armed) {
  return matcher_.Push(decoder_.Push(id), armed);
}

StreamPiece TextStream::Finish(bool armed) {
  StreamPiece piece = matcher_.Push(decoder_.Finish(), armed);
  if (!piece.stop) piece.text += matcher_.Finish();
  return piece;
}

}  // namespace tvq
