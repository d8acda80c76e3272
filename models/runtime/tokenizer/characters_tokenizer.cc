#include <map>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/utf8.h"
#include "models/runtime/tokenizer/token_table.h"
#include "models/runtime/tokenizer/types.h"

namespace tvq {
namespace {

using Ids = std::map<std::string, int32_t, std::less<>>;

class CharactersTokenizer : public TableTokenizer {
 public:
  CharactersTokenizer(TokenTable table, int64_t vocab_size, Ids ids, std::optional<int32_t> unknown)
      : TableTokenizer(std::move(table), vocab_size), ids_(std::move(ids)), unknown_(unknown) {}

  absl::StatusOr<std::vector<int32_t>> Encode(std::string_view text) const override {
    absl::Status valid = CheckUtf8(text);
    if (!valid.ok()) return valid;
    std::vector<int32_t> ids;
    for (size_t i = 0; i < text.size();) {
      const std::string_view character = text.substr(i, ScanUtf8(text.substr(i)).size);
      const auto found = ids_.find(character);
      if (found == ids_.end() && !unknown_.has_value()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the character ", ShownCharacter(character), " at byte offset ", i,
            " is not in the model's vocabulary, which has no unknown token; the text must be "
            "without it"));
      }
      ids.push_back(found == ids_.end() ? *unknown_ : found->second);
      i += character.size();
    }
    return ids;
  }
  std::optional<int32_t> unknown_token() const override { return unknown_; }
  size_t TokenBegin(std::string_view text, size_t index) const override {
    size_t begin = 0;
    for (; index > 0; --index) begin += ScanUtf8(text.substr(begin)).size;
    return begin;
  }
  bool StripsLeadingSpace() const override { return false; }
  std::string_view type() const override { return "characters"; }

 private:
  const Ids ids_;
  const std::optional<int32_t> unknown_;
};

// The character a line of the list stands for.
absl::StatusOr<std::string_view> LineCharacter(std::string_view line) {
  if (line == "\\n") return std::string_view("\n");
  if (line.empty()) return absl::InvalidArgumentError("is empty");
  const Utf8Prefix prefix = ScanUtf8(line);
  if (prefix.kind != Utf8Prefix::kCharacter) return absl::InvalidArgumentError("is not UTF-8");
  if (prefix.size != line.size()) {
    return absl::InvalidArgumentError(absl::StrCat("holds ", Quoted(line)));
  }
  return line;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Tokenizer>> MakeCharactersTokenizer(std::string_view list,
                                                                   std::string_view source,
                                                                   const CommonConfig& config) {
  const std::string file(source);
  Ids ids;
  int64_t id = config.tokenizer.first_id;
  for (int64_t line_number = 1; !list.empty(); ++line_number, ++id) {
    const size_t end = list.find('\n');
    const std::string_view line = list.substr(0, end);
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);

    const std::string where = absl::StrCat(file, ": line ", line_number, " ");
    absl::StatusOr<std::string_view> character = LineCharacter(line);
    if (!character.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, character.status().message(), "; it must be one character, or \\n for a newline"));
    }
    if (id >= config.vocab_size) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, "has the id ", id, ", but config.json's vocab_size is ", config.vocab_size));
    }
    const auto [first, fresh] = ids.emplace(std::string(*character), static_cast<int32_t>(id));
    if (!fresh) {
      return absl::InvalidArgumentError(absl::StrCat(
          where, "repeats the character of line ", first->second - config.tokenizer.first_id + 1));
    }
  }
  if (ids.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " is empty; it must list characters"));
  }

  const std::optional<int32_t> unknown = config.unk_token_id;
  if (unknown && *unknown >= config.tokenizer.first_id && *unknown < id) {
    return absl::InvalidArgumentError(
        absl::StrCat("config.json: field \"unk_token_id\" is ", *unknown, ", which line ",
                     *unknown - config.tokenizer.first_id + 1, " of ", file,
                     " has as a character; it must be an id of its own, or null"));
  }

  for (const auto& other : {config.pad_token_id, config.bos_token_id, config.eos_token_id}) {
    if (unknown && other == unknown) {
      return absl::InvalidArgumentError(
          absl::StrCat("config.json: field \"unk_token_id\" is ", *unknown,
                       ", which another special token has; it must be an id of its own, or null"));
    }
  }

  TokenTable table(id);
  for (const auto& [character, character_id] : ids) table.Set(character_id, character);
  return std::make_unique<CharactersTokenizer>(std::move(table), config.vocab_size, std::move(ids),
                                               unknown);
}

}  // namespace tvq
