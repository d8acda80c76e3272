#include <algorithm>
#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/utf8.h"
#include "models/runtime/tokenizer/sentencepiece_library.h"
#include "models/runtime/tokenizer/sentencepiece_model.h"
#include "models/runtime/tokenizer/token_table.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

constexpr size_t kErrorSize = 512;
constexpr char kSpaceMark[] = "\xE2\x96\x81";  // U+2581

// A processor of the shim library.
class Processor {
 public:
  Processor(const TvqSentencePieceApi* api, TvqSentencePiece* handle)
      : api_(api), handle_(handle) {}
  ~Processor() { api_->close(handle_); }
  Processor(const Processor&) = delete;
  Processor& operator=(const Processor&) = delete;

  static absl::StatusOr<std::unique_ptr<Processor>> Open(std::string_view model,
                                                         const std::string& source) {
    absl::StatusOr<const TvqSentencePieceApi*> api = SentencePieceLibrary();
    if (!api.ok()) return api.status();
    char error[kErrorSize] = "";
    TvqSentencePiece* handle = (*api)->open(model.data(), model.size(), error, sizeof error);
    if (handle != nullptr) return std::make_unique<Processor>(*api, handle);
    return absl::InvalidArgumentError(
        absl::StrCat(source, " is refused by the SentencePiece library: ", error));
  }

  int64_t piece_count() const { return api_->piece_count(handle_); }

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const {
    std::vector<int32_t> ids;
    const auto sink = [](void* context, const int32_t* data, size_t count) {
      static_cast<std::vector<int32_t>*>(context)->assign(data, data + count);
    };
    char error[kErrorSize] = "";
    if (api_->encode(handle_, text.data(), text.size(), sink, &ids, error, sizeof error) == 0) {
      return ids;
    }
    return absl::InternalError(absl::StrCat("SentencePiece cannot encode the text: ", error));
  }

  // See Tokenizer::TokenBegin; 0 if it cannot be told.
  size_t PieceBegin(std::string_view text, size_t index) const {
    const int64_t begin = api_->piece_begin(handle_, text.data(), text.size(), index);
    return begin < 0 ? 0 : static_cast<size_t>(begin);
  }

 private:
  const TvqSentencePieceApi* const api_;
  TvqSentencePiece* const handle_;
};

class SentencePieceTokenizer : public TableTokenizer {
 public:
  SentencePieceTokenizer(TokenTable table, int64_t vocab_size, std::optional<int32_t> unknown,
                         bool strips_space, bool has_space,
                         std::unique_ptr<const Processor> processor)
      : TableTokenizer(std::move(table), vocab_size),
        unknown_(unknown),
        strips_space_(strips_space),
        has_space_(has_space),
        processor_(std::move(processor)) {}

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    absl::Status valid = CheckUtf8(text);
    if (!valid.ok()) return valid;
    return processor_->Encode(text);
  }
  std::optional<int32_t> unknown_token() const override { return unknown_; }
  size_t TokenBegin(std::string_view text, size_t index) const override {
    const size_t begin = std::min(processor_->PieceBegin(text, index), text.size());
    if (!has_space_) return begin;
    // Before the text that became unknown there may be spaces that the model's rules drop.
    const size_t character = text.find_first_not_of(' ', begin);
    return character == std::string_view::npos ? begin : character;
  }
  bool StripsLeadingSpace() const override { return strips_space_; }
  std::string_view type() const override { return "sentencepiece"; }

 private:
  const std::optional<int32_t> unknown_;
  const bool strips_space_;
  const bool has_space_;  // a space alone is a piece
  const std::unique_ptr<const Processor> processor_;
};

// The byte of a piece "<0x0A>".
absl::StatusOr<std::string> ByteOfPiece(const std::string& text) {
  unsigned byte = 0;
  const char* digits = text.data() + 3;
  const bool framed = text.size() == 6 && text.starts_with("<0x") && text.ends_with('>');
  if (framed && std::from_chars(digits, digits + 2, byte, 16).ptr == digits + 2) {
    return std::string(1, static_cast<char>(byte));
  }
  return absl::InvalidArgumentError("is a byte piece, but not of the form <0x0A>");
}

absl::StatusOr<TokenTable> MakeTable(const SentencePieceModel& model, const std::string& source) {
  using Type = SentencePieceModel::PieceType;
  TokenTable table(std::ssize(model.pieces));
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    const SentencePieceModel::Piece& piece = model.pieces[id];
    const auto index = static_cast<int64_t>(id);
    if (piece.type == Type::kControl) continue;
    if (piece.type == Type::kUnknown) {
      table.Set(index, model.unknown_surface, /*special=*/true);
    } else if (piece.type == Type::kByte) {
      absl::StatusOr<std::string> byte = ByteOfPiece(piece.text);
      if (!byte.ok()) {
        return absl::InvalidArgumentError(
            absl::StrCat(source, ": piece ", id, " ", byte.status().message()));
      }
      table.Set(index, *std::move(byte));
    } else {
      table.Set(index, absl::StrReplaceAll(piece.text, {{kSpaceMark, " "}}));
    }
  }
  return table;
}

// The id of the unknown piece.
std::optional<int32_t> UnknownPiece(const SentencePieceModel& model) {
  for (size_t id = 0; id < model.pieces.size(); ++id) {
    if (model.pieces[id].type == SentencePieceModel::PieceType::kUnknown) {
      return static_cast<int32_t>(id);
    }
  }
  return std::nullopt;
}

bool HasSpace(const SentencePieceModel& model) {
  using Type = SentencePieceModel::PieceType;
  return std::any_of(
      model.pieces.begin(), model.pieces.end(), [](const SentencePieceModel::Piece& piece) {
        const bool in_use = piece.type == Type::kNormal || piece.type == Type::kUserDefined;
        return in_use && piece.text == kSpaceMark;
      });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeSentencePieceTokenizer(std::string_view model_bytes,
                                                                      std::string_view source,
                                                                      const CommonConfig& config) {
  const std::string file(source);
  absl::StatusOr<SentencePieceModel> model = ParseSentencePieceModel(model_bytes, source);
  if (!model.ok()) return model.status();
  const int64_t count = std::ssize(model->pieces);
  if (count > config.vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, " has ", count, " pieces, but config.json's vocab_size is ", config.vocab_size));
  }
  absl::StatusOr<TokenTable> table = MakeTable(*model, file);
  if (!table.ok()) return table.status();
  absl::StatusOr<std::unique_ptr<Processor>> processor = Processor::Open(model_bytes, file);
  if (!processor.ok()) return processor.status();
  if ((*processor)->piece_count() != count) {
    return absl::InvalidArgumentError(absl::StrCat(
        file, " has ", count, " pieces, but the library ", "reads ", (*processor)->piece_count()));
  }
  return std::make_unique<SentencePieceTokenizer>(*std::move(table), config.vocab_size,
                                                  UnknownPiece(*model), model->add_dummy_prefix,
                                                  HasSpace(*model), *std::move(processor));
}

}  // namespace tvq
