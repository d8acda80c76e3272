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

absl::StatusOr<ScoredContext> OfText(const Model& model, const std::string& path,
                                     std::string_view text, int64_t tokens) {
  absl::StatusOr<std::vector<int32_t>> ids = model.tokenizer().Encode(text);
  if (!ids.ok()) return ids.status();
  if (tokens > 0) ids->resize(std::min(ids->size(), static_cast<size_t>(tokens) + 1));
  if (ids->size() > 1) return ScoredContext{*std::move(ids)};
  return Wrong(path, absl::StrCat("has ", ids->size(), " tokens, must have two or more"));
}

absl::StatusOr<ScoredContext> OfPair(const Model& model, const std::string& line) {
  const std::vector<std::string> texts = absl::StrSplit(line, '\t');
  if (texts.size() != 2 || texts[0].empty() || texts[1].empty()) {
    return absl::InvalidArgumentError("is not two texts with a tab between them");
  }
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
  const std::vector<std::string> lines = absl::StrSplit(bytes, '\n');
  std::vector<ScoredContext> contexts;
  for (size_t i = 0; i < lines.size() && contexts.size() < most; ++i) {
    if (lines[i].empty()) continue;
    absl::StatusOr<ScoredContext> context = OfPair(model, lines[i]);
    if (!context.ok()) {
      return Wrong(path,
                   absl::StrCat("line ", i + 1, " ", std::string(context.status().message())));
    }
    contexts.push_back(*std::move(context));
  }
  if (contexts.empty()) return Wrong(path, "holds no pairs");
  return contexts;
}

int64_t BigEndian(std::string_view bytes, size_t at) {
  int64_t value = 0;
  for (const char byte : bytes.substr(at, 4)) value = value << 8 | static_cast<uint8_t>(byte);
  return value;
}

absl::StatusOr<std::vector<ScoredContext>> OfImages(const Model& model, const std::string& path,
                                                    std::string_view bytes, size_t most) {
  const CommonConfig& config = model.info().config;
  const TokenizerConfig& shape = config.tokenizer;
  if (shape.type != "pixels" || shape.channels != 1 || shape.levels != 256) {
    return Wrong(path, "the model draws no images of 256 grey levels");
  }
  if (!bytes.starts_with(kIdxBegin) || bytes.size() < kIdxHeader) {
    return Wrong(path, "not an idx file of images");
  }
  const int64_t count = BigEndian(bytes, 4), height = BigEndian(bytes, 8),
                width = BigEndian(bytes, 12);
  if (height != shape.height || width != shape.width) {
    return Wrong(path,
                 absl::StrCat("images of ", width, " x ", height, " pixels; the model's are of ",
                              shape.width, " x ", shape.height));
  }
  const auto pixels = static_cast<size_t>(height * width);
  bytes.remove_prefix(kIdxHeader);
  if (count == 0 || bytes.size() != static_cast<size_t>(count) * pixels) {
    return Wrong(path, absl::StrCat("says that it has ", count, " images, and has ", bytes.size(),
                                    " bytes of them"));
  }
  std::vector<ScoredContext> contexts;
  for (; !bytes.empty() && contexts.size() < most; bytes.remove_prefix(pixels)) {
    ScoredContext context;
    if (config.eos_token_id) context.ids.push_back(*config.eos_token_id);
    for (const char pixel : bytes.substr(0, pixels)) {
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
  if (!options.pairs.empty()) return OfPairs(model, path, bytes, most);
  if (!options.images.empty()) return OfImages(model, path, bytes, most);
  absl::StatusOr<ScoredContext> text = OfText(model, path, bytes, options.tokens);
  if (!text.ok()) return text.status();
  return std::vector<ScoredContext>{*std::move(text)};
}

}  // namespace tvq::bench
