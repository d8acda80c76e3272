#include "models/runtime/registry/text_part.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quoted.h"
#include "models/runtime/families/families.h"

namespace tvq {
namespace {

constexpr size_t kNamedGroups = 4;
constexpr char kEmbedding[] = "embed_tokens.weight", kHead[] = "lm_head.weight";

// The family that computes the text part of a model whose model_type, or whose text part's
// model_type, is this one; null if there is none.
const char* TextFamily(std::string_view model_type) {
  const auto computes = [&](const Family& family) {
    return std::ranges::find(family.text_parts, model_type) != family.text_parts.end();
  };
  const auto found = std::ranges::find_if(AllFamilies(), computes);
  return found == AllFamilies().end() ? nullptr : found->model_type;
}

bool IsFamily(std::string_view model_type) {
  return std::ranges::any_of(AllFamilies(),
                             [&](const Family& f) { return f.model_type == model_type; });
}

// The tensors of the text part alone, under the names that they have in a model of text.
class PartWeights : public WeightSource {
 public:
  // The tensor "model.X" is stored as `prefix` + "X", and lm_head.weight as `head`.
  PartWeights(std::unique_ptr<WeightSource> whole, std::string prefix, std::string head)
      : whole_(std::move(whole)), prefix_(std::move(prefix)), head_(std::move(head)) {}

  absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) override {
    return whole_->Get(Stored(name), shape);
  }
  bool Has(std::string_view name) const override { return whole_->Has(Stored(name)); }
  std::string Digest() const override { return whole_->Digest(); }
  std::string Where(std::string_view name) const override { return whole_->Where(Stored(name)); }
  std::vector<std::string> Unread() const override {
    std::vector<std::string> own;
    for (const std::string& name : whole_->Unread()) {
      if (name == head_) {
        own.emplace_back(kHead);
      } else if (name.starts_with(prefix_)) {
        own.push_back(kOwn + name.substr(prefix_.size()));
      }
    }
    return own;
  }

  bool IsOwn(std::string_view stored) const {
    return stored == head_ || stored.starts_with(prefix_);
  }

 private:
  static constexpr char kOwn[] = "model.";

  std::string Stored(std::string_view name) const {
    if (name == kHead) return head_;
    return name.starts_with(kOwn) ? prefix_ + std::string(name.substr(sizeof(kOwn) - 1))
                                  : "text:" + std::string(name);
  }

  const std::unique_ptr<WeightSource> whole_;
  const std::string prefix_;
  const std::string head_;
};

// What stands before the first dot of a name, or before the second if the name begins with
// "model.".
std::string GroupOf(const std::string& name) {
  const size_t from = name.starts_with("model.") ? 6 : 0;
  return name.substr(0, name.find('.', from));
}

}  // namespace

absl::StatusOr<Config> TextConfig(const Config& config) {
  const absl::StatusOr<std::string> whole = config.String("model_type");
  if (!whole.ok() || IsFamily(*whole)) return config;
  if (!config.Has("text_config")) {
    const char* family = TextFamily(*whole);
    if (family == nullptr) return config;
    return config.With("model_type", family).With("vision_config", nullptr);
  }
  const absl::StatusOr<Config> text = config.Object("text_config");
  if (!text.ok()) return text;
  constexpr const char* kOfBoth[] = {"bos_token_id", "eos_token_id",        "is_causal",
                                     "max_position", "pad_token_id",        "prefill_chunk",
                                     "tokenizer",    "tie_word_embeddings", "quantization_config",
                                     "unk_token_id"};
  const Config completed = text->Completed(config, kOfBoth);
  const absl::StatusOr<bool> tied = completed.Bool("tie_word_embeddings", false);
  if (!tied.ok()) return tied.status();
  const absl::StatusOr<bool> tied_outside = config.Bool("tie_word_embeddings", *tied);
  if (!tied_outside.ok()) return tied_outside.status();
  if (*tied != *tied_outside) {
    return absl::InvalidArgumentError(absl::StrCat(
        config.source(), ": tie_word_embeddings is ", *tied ? "true" : "false",
        " in text_config and ", *tied ? "false" : "true", " outside it, must be the same"));
  }
  const absl::StatusOr<std::string> own = completed.String("model_type");
  if (!own.ok()) return own.status();
  const char* other = TextFamily(*own);
  const Config named = other == nullptr ? completed : completed.With("model_type", other);
  const absl::StatusOr<const Family*> family = FindFamily(named);
  if (!family.ok()) return family.status();
  const absl::StatusOr<Config> defaults = Config::Parse((*family)->part_defaults, named.source());
  if (!defaults.ok()) return defaults;
  return named.Completed(*defaults);
}

absl::StatusOr<TextWeights> TextPartOf(std::unique_ptr<WeightSource> weights,
                                       const std::string& source, const std::string& model_type) {
  const std::vector<std::string> names = weights->Unread();
  std::vector<std::string> prefixes;
  for (const std::string& name : names) {
    if (name == kEmbedding || name.ends_with(absl::StrCat(".", kEmbedding))) {
      prefixes.push_back(name.substr(0, name.size() - std::strlen(kEmbedding)));
    }
  }
  if (prefixes.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        source, " describes a ", model_type, ", whose text part must have one tensor of the name ",
        kEmbedding, "; its weights have ", prefixes.size(),
        prefixes.empty() ? "" : absl::StrCat(", behind ", absl::StrJoin(prefixes, ", "))));
  }
  // The head lies beside the whole model's "model.", or within the part if that is
  // "language_model.model.".
  const std::string& prefix = prefixes.front();
  std::string head(kHead);
  if (prefix.ends_with(".model.")) {
    const std::string within = prefix.substr(0, prefix.size() - 6) + head;
    if (weights->Has(within)) head = within;
  }
  auto part = std::make_unique<PartWeights>(std::move(weights), prefix, head);
  std::set<std::string> groups;
  int64_t others = 0;
  for (const std::string& name : names) {
    if (part->IsOwn(name)) continue;
    groups.insert(GroupOf(name));
    ++others;
  }
  std::vector<std::string> shown(groups.begin(), groups.end());
  if (shown.size() > kNamedGroups) {
    shown.resize(kNamedGroups);
    shown.emplace_back("...");
  }
  std::string left_out =
      absl::StrCat("the text part of ", model_type, ", without ", others, " other tensors");
  if (others > 0) absl::StrAppend(&left_out, ": ", absl::StrJoin(shown, ", "));
  return TextWeights{.weights = std::move(part), .left_out = std::move(left_out)};
}

}  // namespace tvq
