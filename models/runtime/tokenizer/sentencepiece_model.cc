#include "models/runtime/tokenizer/sentencepiece_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/read_file.h"
#include "models/runtime/tokenizer/charsmap.h"
#include "models/runtime/tokenizer/wire_reader.h"

namespace tvq {
namespace {

using Type = WireReader::Type;
using Field = WireReader::Field;
using Piece = SentencePieceModel::Piece;
using PieceType = SentencePieceModel::PieceType;

// The most user-defined symbols matching at one place of a text that PrefixMatcher has room for.
constexpr size_t kMostNested = 64;

class ModelReader {
 public:
  explicit ModelReader(std::string_view source) : source_(source) {}

  absl::StatusOr<SentencePieceModel> Read(std::string_view file) {
    absl::Status status = Walk(WireReader(file), [this](const Field& field, size_t offset) {
      switch (field.number) {
        case 1:
          return ReadPiece(field, offset);
        case 2:
          return ReadTrainerSpec(field, offset);
        case 3:
          return ReadNormalizerSpec(field, offset, /*for_text=*/true);
        case 5:  // the denormalizer
          return ReadNormalizerSpec(field, offset, /*for_text=*/false);
        default:
          return absl::OkStatus();
      }
    });
    if (!status.ok()) return status;
    if (model_.pieces.empty()) return Error("has no pieces; is it a SentencePiece model?");
    status = CheckNesting();
    if (!status.ok()) return status;
    return std::move(model_);
  }

 private:
  absl::Status Error(const std::string& problem) const {
    return absl::InvalidArgumentError(absl::StrCat(source_, " ", problem));
  }

  // Calls visit(field, offset of its bytes) for every field of a message.
  template <typename Visit>
  absl::Status Walk(WireReader reader, Visit visit) const {
    Field field;
    while (reader.Next(field)) {
      absl::Status status =
          visit(field, field.type == Type::kBytes ? reader.OffsetOf(field) : field.offset);
      if (!status.ok()) return status;
    }
    if (reader.ok()) return absl::OkStatus();
    return Error(absl::StrCat("is not a SentencePiece model: broken at offset ", reader.offset()));
  }

  absl::Status Expect(const Field& field, Type type) const {
    if (field.type == type) return absl::OkStatus();
    return Error(absl::StrCat("has a field of the wrong type at offset ", field.offset));
  }

  absl::Status ReadPiece(const Field& message, size_t offset) {
    absl::Status status = Expect(message, Type::kBytes);
    if (!status.ok()) return status;
    const std::string name = absl::StrCat("piece ", model_.pieces.size(), " at offset ", offset);
    Piece piece;
    status = Walk(WireReader(message.bytes, offset),
                  [&](const Field& field, size_t) { return ReadPieceField(field, name, piece); });
    if (!status.ok()) return status;
    if (piece.text.empty() || piece.text.find('\0') != std::string::npos) {
      return Error(absl::StrCat(name, " has no text, or a zero byte in it"));
    }
    model_.pieces.push_back(std::move(piece));
    return absl::OkStatus();
  }

  absl::Status ReadPieceField(const Field& field, const std::string& name, Piece& piece) const {
    if (field.number == 1) {
      piece.text = field.bytes;
      return Expect(field, Type::kBytes);
    }
    if (field.number == 2) {
      const auto score = std::bit_cast<float>(static_cast<uint32_t>(field.value));
      if (field.type == Type::kFixed32 && !std::isfinite(score)) {
        return Error(absl::StrCat(name, " has a score that is not finite"));
      }
      return Expect(field, Type::kFixed32);
    }
    if (field.number == 3) {
      constexpr auto kLast = static_cast<uint64_t>(PieceType::kByte);
      if (field.value < 1 || field.value > kLast) {
        return Error(absl::StrCat(name, " has type ", field.value, "; types are 1 to ", kLast));
      }
      piece.type = static_cast<PieceType>(field.value);
      return Expect(field, Type::kVarint);
    }
    return absl::OkStatus();
  }

  absl::Status ReadTrainerSpec(const Field& message, size_t offset) {
    absl::Status status = Expect(message, Type::kBytes);
    if (!status.ok()) return status;
    return Walk(WireReader(message.bytes, offset), [&](const Field& field, size_t) {
      if (field.number == 24 && field.value != 0) {
        return Error("was trained with treat_whitespace_as_suffix, which is not supported");
      }
      if (field.number != 44) return absl::OkStatus();
      model_.unknown_surface = field.bytes;
      return Expect(field, Type::kBytes);
    });
  }

  absl::Status ReadNormalizerSpec(const Field& message, size_t offset, bool for_text) {
    absl::Status status = Expect(message, Type::kBytes);
    if (!status.ok()) return status;
    return Walk(WireReader(message.bytes, offset), [&](const Field& field, size_t field_offset) {
      if (field.number == 3 && for_text) model_.add_dummy_prefix = field.value != 0;
      if (field.number == 3) return Expect(field, Type::kVarint);
      if (field.number != 2) return absl::OkStatus();
      const absl::Status map = CheckCharsmap(field.bytes);
      if (map.ok()) return Expect(field, Type::kBytes);
      return Error(absl::StrCat("has a precompiled_charsmap at offset ", field_offset, " that ",
                                map.message()));
    });
  }

  // Checks how many user-defined symbols are prefixes of one another: in sorted order they form a
  // stack.
  absl::Status CheckNesting() const {
    std::vector<std::string_view> symbols;
    for (const Piece& piece : model_.pieces) {
      if (piece.type == PieceType::kUserDefined) symbols.push_back(piece.text);
    }
    std::sort(symbols.begin(), symbols.end());
    std::vector<std::string_view> open;
    for (const std::string_view symbol : symbols) {
      while (!open.empty() && !symbol.starts_with(open.back())) open.pop_back();
      open.push_back(symbol);
      if (open.size() > kMostNested) {
        return Error(absl::StrCat("has more than ", kMostNested,
                                  " user-defined symbols that begin one another"));
      }
    }
    return absl::OkStatus();
  }

  const std::string source_;
  SentencePieceModel model_;
};

}  // namespace

absl::StatusOr<SentencePieceModel> ParseSentencePieceModel(std::string_view model,
                                                           std::string_view source) {
  return ModelReader(source).Read(model);
}

}  // namespace tvq
