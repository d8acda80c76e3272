#include "models/runtime/sentencepiece_shim/sentencepiece_shim.h"

#include <sentencepiece_processor.h>

#include <cstdio>
#include <exception>
#include <memory>
#include <string>
#include <vector>

// The library has this function, but its header does not declare it.
namespace sentencepiece::logging {
void SetMinLogLevel(int level);
}

struct TvqSentencePiece {
  sentencepiece::SentencePieceProcessor processor;
};

namespace {

void Report(const char* message, char* error, size_t error_size) {
  std::snprintf(error, error_size, "%s", message);
}

TvqSentencePiece* Open(const char* model, size_t model_size, char* error,
                       size_t error_size) noexcept {
  try {
    constexpr int kSilent = 3;  // below "fatal" nothing is logged; errors come as a status
    sentencepiece::logging::SetMinLogLevel(kSilent);
    auto result = std::make_unique<TvqSentencePiece>();
    const auto status =
        result->processor.LoadFromSerializedProto(absl::string_view(model, model_size));
    if (status.ok()) return result.release();
    Report(status.ToString().c_str(), error, error_size);
  } catch (const std::exception& exception) {
    Report(exception.what(), error, error_size);
  } catch (...) {
    Report("unknown exception", error, error_size);
  }
  return nullptr;
}

void Close(TvqSentencePiece* processor) noexcept { delete processor; }

int32_t PieceCount(const TvqSentencePiece* processor) noexcept {
  return processor->processor.GetPieceSize();
}

int Encode(const TvqSentencePiece* processor, const char* text, size_t text_size, TvqIdSink sink,
           void* context, char* error, size_t error_size) noexcept {
  try {
    std::vector<int> ids;
    const auto status = processor->processor.Encode(absl::string_view(text, text_size), &ids);
    if (status.ok()) {
      sink(context, ids.data(), ids.size());
      return 0;
    }
    Report(status.ToString().c_str(), error, error_size);
  } catch (const std::exception& exception) {
    Report(exception.what(), error, error_size);
  } catch (...) {
    Report("unknown exception", error, error_size);
  }
  return -1;
}

int64_t PieceBegin(const TvqSentencePiece* processor, const char* text, size_t text_size,
                   size_t index) noexcept {
  try {
    const auto pieces =
        processor->processor.EncodeAsImmutableProto(absl::string_view(text, text_size));
    if (index < pieces.pieces_size()) return pieces.pieces(static_cast<int>(index)).begin();
    return -1;
  } catch (...) {
    return -1;
  }
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const TvqSentencePieceApi tvq_sentencepiece_api = {Open, Close, PieceCount, Encode, PieceBegin};
