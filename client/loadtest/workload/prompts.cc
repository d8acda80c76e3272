#include "client/loadtest/workload/prompts.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace tvq::loadtest {
namespace {

class RandomIdPrompts final : public Prompts {
 public:
  RandomIdPrompts(std::vector<int32_t> ids, LengthDistribution length)
      : ids_(std::move(ids)), length_(std::move(length)) {}

  Prompt Draw(Random& random) const override {
    Prompt prompt;
    prompt.ids.resize(length_.Draw(random));
    for (int32_t& id : prompt.ids) id = ids_[random.Below(ids_.size())];
    return prompt;
  }

 private:
  const std::vector<int32_t> ids_;
  const LengthDistribution length_;
};

class PiecePrompts final : public Prompts {
 public:
  PiecePrompts(std::vector<int32_t> ids, LengthDistribution length)
      : ids_(std::move(ids)), length_(std::move(length)) {}

  Prompt Draw(Random& random) const override {
    const auto length = static_cast<size_t>(length_.Draw(random));
    const auto begin = ids_.begin() + static_cast<int64_t>(random.Below(ids_.size() - length + 1));
    return {.ids = std::vector<int32_t>(begin, begin + static_cast<int64_t>(length))};
  }

 private:
  const std::vector<int32_t> ids_;
  const LengthDistribution length_;
};

class TextPrompts final : public Prompts {
 public:
  explicit TextPrompts(std::vector<std::string> texts) : texts_(std::move(texts)) {}

  Prompt Draw(Random& random) const override {
    return {.text = texts_[random.Below(texts_.size())]};
  }

 private:
  const std::vector<std::string> texts_;
};

}  // namespace

std::unique_ptr<Prompts> Prompts::RandomIds(std::vector<int32_t> ids, LengthDistribution length) {
  return std::make_unique<RandomIdPrompts>(std::move(ids), std::move(length));
}

std::unique_ptr<Prompts> Prompts::Pieces(std::vector<int32_t> ids, LengthDistribution length) {
  return std::make_unique<PiecePrompts>(std::move(ids), std::move(length));
}

std::unique_ptr<Prompts> Prompts::Texts(std::vector<std::string> texts) {
  return std::make_unique<TextPrompts>(std::move(texts));
}

std::vector<std::string> Lines(const std::string& content) {
  std::vector<std::string> lines;
  for (auto line : absl::StrSplit(content, absl::ByAnyChar("\r\n"))) {
    if (!absl::StripAsciiWhitespace(line).empty()) lines.emplace_back(line.data(), line.size());
  }
  return lines;
}

}  // namespace tvq::loadtest
