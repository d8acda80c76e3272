#include "models/runtime/registry/registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quoted.h"
#include "models/runtime/families/families.h"
#include "models/runtime/fingerprint.h"
#include "models/runtime/registry/text_part.h"
#include "models/runtime/text/load_text.h"

namespace tvq {
namespace {

constexpr size_t kNamedTensors = 3;

// An error if a tensor was not used: then config.json describes another model than the weights.
absl::Status CheckAllUsed(const Config& config, const Family& family, const WeightSource& weights) {
  std::vector<std::string> names = weights.Unread();
  if (family.spare != nullptr) std::erase_if(names, family.spare);
  if (names.empty()) return absl::OkStatus();
  const size_t count = names.size(), shown = std::min(count, kNamedTensors);
  names.resize(shown);
  for (std::string& name : names) name = absl::StrCat(Quoted(name), " (", weights.Where(name), ")");
  return absl::InvalidArgumentError(absl::StrCat(
      config.source(), " describes a model that has no use for ", count,
      count == 1 ? " tensor" : " tensors", " of its weights: ", absl::StrJoin(names, ", "),
      count > shown ? ", ..." : "", "; both must be of the same model: its kind, its options, its ",
      "number of layers"));
}

// An error if the vocabulary lacks a character of the template's prefixes and suffixes: they are in
// every conversation, and a user cannot leave them out.
absl::Status CheckTemplate(const ChatTemplate& chat, const Tokenizer& tokenizer,
                           const std::string& dir) {
  absl::Status status;
  const auto check = [&](const char* role, const ChatTemplate::Role& texts) {
    for (const auto& [field, text] :
         {std::pair{"prefix", texts.prefix}, {"suffix", texts.suffix}}) {
      const auto ids = tokenizer.Encode(text);
      const absl::Status known = ids.ok() ? tokenizer.CheckKnown(text, *ids) : ids.status();
      if (known.ok()) continue;
      status.Update(
          absl::InvalidArgumentError(absl::StrCat(dir, "/generation_config.json: chat_template.",
                                                  role, ".", field, ": ", known.message())));
    }
  };
  if (chat.system) check("system", *chat.system);
  check("user", chat.user);
  check("assistant", chat.assistant);
  return status;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Model>> BuildModel(const Config& config, WeightSource& weights,
                                                  std::unique_ptr<Tokenizer> tokenizer,
                                                  const LoadOptions& options) {
  const absl::StatusOr<const Family*> family = FindFamily(config);
  if (!family.ok()) return family.status();
  LoadOptions known = options;
  if (known.fingerprint.empty()) known.fingerprint = Fingerprint(config, weights, "");
  auto model = (*family)->build(**family, config, weights, std::move(tokenizer), known);
  if (!model.ok()) return model;
  if (absl::Status s = CheckAllUsed(config, **family, weights); !s.ok()) return s;
  return model;
}

absl::StatusOr<std::unique_ptr<Model>> LoadModel(const std::string& dir,
                                                 const LoadOptions& options) {
  const absl::StatusOr<Config> whole = Config::Load(dir);
  if (!whole.ok()) return whole.status();
  const absl::StatusOr<Config> config = TextConfig(*whole);
  if (!config.ok()) return config.status();
  if (const auto family = FindFamily(*config); !family.ok()) return family.status();
  absl::StatusOr<CommonConfig> common = config->Common();
  if (!common.ok()) return common.status();
  absl::StatusOr<GenerationDefaults> generation =
      LoadGenerationDefaults(dir, *common, options.default_fields);
  if (!generation.ok()) return generation.status();
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer(dir, *common);
  if (!tokenizer.ok()) return tokenizer.status();
  absl::StatusOr<DirectoryText> text = LoadDirectoryText(dir, **tokenizer);
  if (!text.ok()) return text.status();
  if (generation->chat_template) {
    const absl::Status s = CheckTemplate(*generation->chat_template, **tokenizer, dir);
    if (!s.ok()) return s;
  }
  absl::StatusOr<std::unique_ptr<WeightSource>> weights = OpenWeights(
      dir, [device = options.device](int64_t n, const std::function<void(int64_t)>& task) {
        device->RunOnHost(n, task);
      });
  if (!weights.ok()) return weights.status();
  LoadOptions known = options;
  const absl::StatusOr<std::string> of_whole = whole->String("model_type");
  if (of_whole.ok() && *of_whole != common->model_type) {
    absl::StatusOr<TextWeights> part = TextPartOf(*std::move(weights), config->source(), *of_whole);
    if (!part.ok()) return part.status();
    weights = std::move(part->weights);
    known.left_out = part->left_out;
  }
  absl::StatusOr<std::string> tokenizer_file = TokenizerFile(dir, *common);
  if (!tokenizer_file.ok()) return tokenizer_file.status();
  known.generation = *generation;
  if (text->begin_id) {
    known.generation.bos_token_id = text->begin_id;
    known.generation.add_bos_token = true;
  }
  known.conversations = text->conversations;
  known.fingerprint = Fingerprint(*config, **weights, *tokenizer_file);
  return BuildModel(*config, **weights, *std::move(tokenizer), known);
}

std::vector<std::string> Families() {
  std::vector<std::string> names;
  for (const Family& family : AllFamilies()) names.emplace_back(family.model_type);
  return names;
}

}  // namespace tvq
