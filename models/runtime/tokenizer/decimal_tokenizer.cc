#include <charconv>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/utf8.h"
#include "models/runtime/tokenizer/token_table.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

// For sequences that are not text: their ids, 0 .. count - 1, are written in decimal, separated by
// spaces.
class DecimalTokenizer : public TableTokenizer {
 public:
  // `type`, and `unit`, the word for an id in messages, are string literals.
  DecimalTokenizer(TokenTable table, int64_t vocab_size, std::string_view type, const char* unit)
      : TableTokenizer(std::move(table), vocab_size), type_(type), unit_(unit) {}

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    absl::Status valid = CheckUtf8(text);
    if (!valid.ok()) return valid;
    constexpr std::string_view kSpace = " \t\r\n";
    std::vector<int32_t> ids;
    size_t at = text.find_first_not_of(kSpace);
    while (at != std::string_view::npos) {
      const std::string_view word = text.substr(at, text.find_first_of(kSpace, at) - at);
      int32_t id = -1;
      const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
      const bool whole = error == std::errc() && end == word.data() + word.size();
      if (!whole || id < 0 || id >= table().size()) {
        return absl::InvalidArgumentError(
            absl::StrCat(Quoted(word), " at byte offset ", at, " is not a ", unit_, "; ", unit_,
                         "s are integers from 0 to ", table().size() - 1));
      }
      ids.push_back(id);
      at = text.find_first_not_of(kSpace, at + word.size());
    }
    return ids;
  }
  bool StripsLeadingSpace() const override { return true; }
  std::string_view type() const override { return type_; }

 private:
  const std::string_view type_;
  const char* const unit_;
};

std::unique_ptr<Tokenizer> Make(int64_t count, int64_t vocab_size, std::string_view type,
                                const char* unit) {
  TokenTable table(count);
  for (int64_t id = 0; id < count; ++id) table.Set(id, absl::StrCat(" ", id));
  return std::make_unique<DecimalTokenizer>(std::move(table), vocab_size, type, unit);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakePixelsTokenizer(const CommonConfig& config) {
  const int64_t levels = config.tokenizer.levels;
  if (levels <= config.vocab_size) return Make(levels, config.vocab_size, "pixels", "level");
  return absl::InvalidArgumentError(absl::StrCat("config.json: field \"vocab_size\" is ",
                                                 config.vocab_size, "; a pixels tokenizer of ",
                                                 levels, " levels needs at least as many"));
}

std::unique_ptr<Tokenizer> MakeIdsTokenizer(const CommonConfig& config) {
  return Make(config.vocab_size, config.vocab_size, "ids", "token id");
}

}  // namespace tvq
