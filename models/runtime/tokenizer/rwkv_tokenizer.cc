#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/utf8.h"
#include "models/runtime/tokenizer/python_literal.h"
#include "models/runtime/tokenizer/token_table.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

struct Token {
  std::string bytes;
  int32_t id = 0;
};

class RwkvTokenizer : public TableTokenizer {
 public:
  // `tokens` are sorted by their bytes, without duplicates.
  RwkvTokenizer(TokenTable table, int64_t vocab_size, std::vector<Token> tokens)
      : TableTokenizer(std::move(table), vocab_size), tokens_(std::move(tokens)) {}

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    absl::Status valid = CheckUtf8(text);
    if (!valid.ok()) return valid;
    std::vector<int32_t> ids;
    for (size_t at = 0; at < text.size();) {
      const Token* token = Longest(text.substr(at));
      if (token == nullptr) {
        return absl::InvalidArgumentError(
            absl::StrFormat("the byte 0x%02X at byte offset %d is not in the model's vocabulary",
                            static_cast<unsigned char>(text[at]), at));
      }
      ids.push_back(token->id);
      at += token->bytes.size();
    }
    return ids;
  }
  bool StripsLeadingSpace() const override { return false; }
  std::string_view type() const override { return "rwkv"; }

 private:
  // The longest token that `text` begins with.
  const Token* Longest(std::string_view text) const {
    const Token* longest = nullptr;
    auto from = tokens_.begin(), to = tokens_.end();  // the tokens that begin with text[0..n)
    for (size_t n = 0; n < text.size() && from != to; ++n) {
      const auto byte_of = [n](const Token& token) {
        return n < token.bytes.size() ? static_cast<unsigned char>(token.bytes[n]) : -1;
      };
      const int byte = static_cast<unsigned char>(text[n]);
      from = std::partition_point(from, to, [&](const Token& t) { return byte_of(t) < byte; });
      to = std::partition_point(from, to, [&](const Token& t) { return byte_of(t) == byte; });
      if (from != to && from->bytes.size() == n + 1) longest = &*from;
    }
    return longest;
  }

  const std::vector<Token> tokens_;
};

// The number that `text` spells in decimal; nullopt if it is none, or is negative.
std::optional<int64_t> Number(std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size() && number >= 0;
  return whole ? std::optional(number) : std::nullopt;
}

// A line: id, literal, bytes.
absl::StatusOr<Token> ParseLine(std::string_view line, int64_t vocab_size) {
  const size_t first = line.find(' '), last = line.rfind(' ');
  if (first == std::string_view::npos || last <= first) {
    return absl::InvalidArgumentError("is not an id, a literal and a length");
  }
  const std::optional<int64_t> id = Number(line.substr(0, first));
  if (!id || *id >= vocab_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has an id that is no number from 0 to ", vocab_size - 1, ", by config.json's vocab_size"));
  }
  absl::StatusOr<std::string> bytes = ParsePythonLiteral(line.substr(first + 1, last - first - 1));
  if (!bytes.ok()) return bytes.status();
  const std::optional<int64_t> size = Number(line.substr(last + 1));
  if (!size || *size != std::ssize(*bytes) || bytes->empty()) {
    return absl::InvalidArgumentError(absl::StrCat("has another length than its literal, ",
                                                   bytes->size(), " bytes, or an empty literal"));
  }
  return Token{*std::move(bytes), static_cast<int32_t>(*id)};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeRwkvTokenizer(std::string_view list,
                                                             std::string_view source,
                                                             const CommonConfig& config) {
  const auto refuse = [&](int64_t line, const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(source), ": line ", line, " ", what));
  };
  std::vector<Token> tokens;
  std::vector<bool> taken(static_cast<size_t>(config.vocab_size));
  int64_t largest = -1;
  for (int64_t number = 1; !list.empty(); ++number) {
    const size_t end = std::min(list.find('\n'), list.size());
    std::string_view line = list.substr(0, end);
    list.remove_prefix(std::min(end + 1, list.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    absl::StatusOr<Token> token = ParseLine(line, config.vocab_size);
    if (!token.ok()) return refuse(number, std::string(token.status().message()));
    if (taken[static_cast<size_t>(token->id)]) return refuse(number, "has an id of another line");
    taken[static_cast<size_t>(token->id)] = true;
    largest = std::max<int64_t>(largest, token->id);
    tokens.push_back(*std::move(token));
  }
  if (tokens.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(source), " has no tokens"));
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const Token& a, const Token& b) { return a.bytes < b.bytes; });
  const auto twice =
      std::adjacent_find(tokens.begin(), tokens.end(),
                         [](const Token& a, const Token& b) { return a.bytes == b.bytes; });
  if (twice != tokens.end()) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(source), ": the ids ", twice->id,
                                                   " and ", (twice + 1)->id,
                                                   " have the same literal"));
  }
  TokenTable table(largest + 1);
  for (const Token& token : tokens) table.Set(token.id, token.bytes);
  return std::make_unique<RwkvTokenizer>(std::move(table), config.vocab_size, std::move(tokens));
}

}  // namespace tvq
