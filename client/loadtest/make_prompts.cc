#include "client/loadtest/make_prompts.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::loadtest {
namespace {

// Of a text file that pieces are cut from; enough to draw from, and one call tokenizes it.
constexpr size_t kPieceBytes = size_t{1} << 20;

absl::Status Wrong(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream content;
  content << file.rdbuf();
  if (!file.is_open() || file.bad() || content.str().empty()) {
    return Wrong(absl::StrCat("--prompt-file: cannot read ", path, ", or it is empty"));
  }
  return content.str();
}

// Bytes of UTF-8, cut where a line ends if there is one.
std::string Head(const std::string& text) {
  if (text.size() <= kPieceBytes) return text;
  const size_t end = text.rfind('\n', kPieceBytes);
  return text.substr(0, end == text.npos ? kPieceBytes : end);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const Prompts>> MakePrompts(const Options& options,
                                                           const ModelInfo& model, Target& target) {
  const LengthDistribution length = options.prompt_tokens.value_or(LengthDistribution::Fixed(64));
  if (model.max_prompt_tokens > 0 && length.max() > model.max_prompt_tokens) {
    return Wrong(absl::StrCat("--prompt-tokens: the server takes at most ", model.max_prompt_tokens,
                              " tokens, not ", length.max()));
  }
  if (options.prompt_file.empty()) {
    std::vector<int32_t> ids;
    for (int32_t id = 0; id < model.vocab_size; ++id) {
      const auto& special = model.special_ids;
      if (std::find(special.begin(), special.end(), id) == special.end()) ids.push_back(id);
    }
    if (ids.empty()) return Wrong(absl::StrCat("model ", model.name, " has no tokens"));
    return Prompts::RandomIds(std::move(ids), length);
  }
  const auto content = ReadFile(options.prompt_file);
  if (!content.ok()) return content.status();
  if (!options.prompt_tokens) {
    std::vector<std::string> lines = Lines(*content);
    if (lines.empty()) {
      return Wrong(absl::StrCat("--prompt-file: ", options.prompt_file, " has no line with text"));
    }
    return Prompts::Texts(std::move(lines));
  }
  auto ids = target.Tokenize(model.name, Head(*content));
  if (!ids.ok()) return ids.status();
  if (static_cast<int64_t>(ids->size()) < length.max()) {
    return Wrong(absl::StrCat("--prompt-file: ", options.prompt_file, " has ", ids->size(),
                              " tokens, --prompt-tokens asks for ", length.max()));
  }
  return Prompts::Pieces(std::move(*ids), length);
}

}  // namespace tvq::loadtest
