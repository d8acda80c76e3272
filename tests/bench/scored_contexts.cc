#include "tests/bench/scored_contexts.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tvq::bench {
namespace {

constexpr std::string_view kIdxBegin("\0\0\x08\x03", 4);  // unsigned bytes, three dimensions
constexpr size_t kIdxHeader = 16;

absl::Status Wrong(const std::string& path, std::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::string(why)));
}

absl::StatusOr<ScoredContext> OfText(const Model& model, std::string_view text, int64_t tokens) {
  absl::StatusOr<std::vector<int32_t>> ids = model.tokenizer().Encode(text);
  if (!ids.ok()) return ids.status();
  if (tokens > 0) ids->resize(std::min(ids->size(), static_cast<size_t>(tokens) + 1));
  return ScoredContext{*std::move(ids)};
}

absl::StatusOr<ScoredContext> OfPair(const Model& model, const std::string& line) {
  const std::vector<std::string> texts = absl::StrSplit(line, '\t');
  if (texts.size() != 2) return absl::InvalidArgumentError("must be two texts with a tab between");
  absl::StatusOr<std::vector<int32_t>> ids = model.tokenizer().Encode(texts[0] + "\n");
  if (!ids.ok()) return ids.status();
  const absl::StatusOr<std::vector<int32_t>> second = model.tokenizer().Encode(texts[1]);
  if (!second.ok()) return second.status();
  const size_t given = ids->size();
  ids->insert(ids->end(), second->begin(), second->end());
  return ScoredContext{*std::move(ids), given};
}

absl::StatusOr<std::vector<ScoredContext>> OfPairs(const Model& model, const std::string& path,
                                                   const std::string& bytes, size_t most) {
  std::vector<ScoredContext> contexts;
  const std::vector<std::string> lines = absl::StrSplit(bytes, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    if (contexts.size() == most) break;
    absl::StatusOr<ScoredContext> context = OfPair(model, line);
    if (!context.ok()) {
      return Wrong(path, absl::StrCat("pair ", contexts.size() + 1, ": ",
                                      std::string(context.status().message())));
    }
    contexts.push_back(*std::move(context));
  }
  return contexts;
}

absl::StatusOr<std::vector<ScoredContext>> OfImages(const Model& model, const std::string& path,
                                                    std::string_view bytes, size_t most) {
  const CommonConfig& config = model.info().config;
  const TokenizerConfig& shape = config.tokenizer;
  if (shape.type != "pixels" || !config.eos_token_id)
    return Wrong(path, "the model draws no images");
  const auto pixels = static_cast<size_t>(shape.height * shape.width * shape.channels);
  if (!bytes.starts_with(kIdxBegin) || bytes.size() < kIdxHeader ||
      (bytes.size() - kIdxHeader) % pixels != 0 || shape.levels != 256) {
    return Wrong(path, absl::StrCat("must be an idx file of images of ", pixels,
                                    " bytes, for a model of 256 grey levels"));
  }
  std::vector<ScoredContext> contexts;
  for (size_t at = kIdxHeader; at < bytes.size() && contexts.size() < most; at += pixels) {
    ScoredContext context{{*config.eos_token_id}};
    for (const char pixel : bytes.substr(at, pixels)) {
      context.ids.push_back(static_cast<uint8_t>(pixel));
    }
    contexts.push_back(std::move(context));
  }
  return contexts;
}

}  // namespace

absl::StatusOr<std::vector<ScoredContext>> ReadContexts(const Model& model,
                                                        const Options& options) {
  const std::string& path = !options.text.empty()    ? options.text
                            : !options.pairs.empty() ? options.pairs
                                                     : options.images;
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file) return absl::NotFoundError(absl::StrCat(path, ": could not be read"));
  const size_t most = options.examples == 0 ? SIZE_MAX : static_cast<size_t>(options.examples);
  absl::StatusOr<std::vector<ScoredContext>> contexts;
  if (!options.text.empty()) {
    absl::StatusOr<ScoredContext> text = OfText(model, bytes, options.tokens);
    if (!text.ok()) return text.status();
    contexts = std::vector<ScoredContext>{*std::move(text)};
  } else if (!options.pairs.empty()) {
    contexts = OfPairs(model, path, bytes, most);
  } else {
    contexts = OfImages(model, path, bytes, most);
  }
  if (!contexts.ok()) return contexts.status();
  const auto scored = [](const ScoredContext& one) { return one.ids.size() > one.given; };
  if (contexts->empty() || !std::all_of(contexts->begin(), contexts->end(), scored)) {
    return Wrong(path, "has nothing to score");
  }
  return contexts;
}

}  // namespace tvq::bench
