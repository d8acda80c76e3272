#ifndef TVQ_MODELS_RUNTIME_TOKENIZER_SENTENCEPIECE_MODEL_H_
#define TVQ_MODELS_RUNTIME_TOKENIZER_SENTENCEPIECE_MODEL_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace tvq {

// The part of a SentencePiece .model file that turns ids into text. (The library turns text into
// ids.)
struct SentencePieceModel {
  // As sentencepiece_model.proto numbers them.
  enum class PieceType { kNormal = 1, kUnknown, kControl, kUserDefined, kUnused, kByte };
  struct Piece {
    std::string text;  // as in the file: U+2581 stands for a space
    PieceType type = PieceType::kNormal;
  };

  std::vector<Piece> pieces;  // by id
  bool add_dummy_prefix = true;
  std::string unknown_surface = " \xE2\x81\x87 ";  // U+2047 between spaces, the format's default
};

// Reads the protocol buffer. libsentencepiece trusts its models, so this refuses what would make it
// read or write out of bounds or stop the process: broken framing, pieces that are empty or hold a
// zero byte, scores that are not finite, a normalization table whose links lead outside it or in
// circles. It does not check what the library itself refuses (duplicates, no unknown piece, ...).
// INVALID_ARGUMENT naming `source` and the offset or piece.
absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(std::string_view model,
                                                           std::string_view source);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_TOKENIZER_SENTENCEPIECE_MODEL_H_
