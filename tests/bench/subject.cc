#include "tests/bench/subject.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/numbers/parse_dtype.h"
#include "models/runtime/families/families.h"
#include "models/runtime/registry/registry.h"
#include "tests/bench/profile.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq::bench {
namespace {

constexpr uint64_t kSeed = 1;

// All sizes of the `enwik8` script of the Transformer-VQ paper's code: 259 bytes and special ids,
// one head, blocks of 512 that see the block before.
TransformerConfig Enwik8() {
  TransformerConfig c;
  c.common.model_type = "transformer_vq";
  c.common.vocab_size = 259;
  c.common.prefill_chunk = 512;
  c.common.tokenizer.type = "bytes";
  c.d_model = 768;
  c.d_k = 128;
  c.d_v = 1536;
  c.n_code = 512;
  c.n_layer = 48;
  c.block_len = 512;
  c.mem_len = 512;
  c.output_norm = true;
  return c;
}

// The shape of the PG-19 model of that paper, 1.3 B parameters: 32,000 pieces of text, whose ids
// need no tokenizer here.
TransformerConfig Pg19() {
  TransformerConfig c = Enwik8();
  c.common.vocab_size = 32000;
  c.common.tokenizer.type = "ids";
  c.d_model = 2048;
  c.d_v = 4096;
  return c;
}

TransformerConfig Tiny() {
  TransformerConfig c = ScaledDown(Enwik8());
  c.common.prefill_chunk = 64;
  return c;
}

// Of transformer_vq; of other families nothing, and then `any_family` must be true.
absl::StatusOr<std::optional<TransformerConfig>> ConfigOf(const std::string& dir, bool any_family) {
  absl::StatusOr<Config> config = Config::Load(dir);
  if (!config.ok()) return config.status();
  const absl::StatusOr<const Family*> family = FindFamily(*config);
  if (!family.ok()) return family.status();
  if (std::string_view((*family)->model_type) == "transformer_vq") {
    return ParseTransformerConfig(*config, (*family)->fields);
  }
  if (any_family) return std::nullopt;
  return absl::InvalidArgumentError(
      absl::StrCat(dir, ": model_type is \"", (*family)->model_type, "\", must be transformer_vq"));
}

}  // namespace

nlohmann::json ConfigJson(const TransformerConfig& c) {
  return {{"model_type", c.common.model_type},
          {"vocab_size", c.common.vocab_size},
          {"prefill_chunk", c.common.prefill_chunk},
          {"eos_token_id", 1},
          {"tokenizer", {{"type", c.common.tokenizer.type}}},
          {"d_model", c.d_model},
          {"d_k", c.d_k},
          {"d_v", c.d_v},
          {"n_code", c.n_code},
          {"n_layer", c.n_layer},
          {"n_head", c.n_head},
          {"n_kv_head", c.n_kv_head},
          {"block_len", c.block_len},
          {"mem_len", c.mem_len},
          {"pe_lam", c.pe_lam},
          {"pe_abs", c.pe_abs},
          {"tie_word_embeddings", c.tie_word_embeddings},
          {"output_norm", c.output_norm},
          {"logit_scale", c.logit_scale}};
}

std::vector<std::string> PresetNames() { return {"enwik8", "pg19", "tiny"}; }

absl::StatusOr<TransformerConfig> PresetConfig(const std::string& name) {
  if (name == "enwik8") return Enwik8();
  if (name == "pg19") return Pg19();
  if (name == "tiny") return Tiny();
  return absl::InvalidArgumentError(absl::StrCat(
      "preset is \"", name, "\", must be one of: ", absl::StrJoin(PresetNames(), ", ")));
}

TransformerConfig ScaledDown(TransformerConfig c) {
  c.common.vocab_size = std::min<int64_t>(c.common.vocab_size, 259);
  c.common.prefill_chunk = std::min<int64_t>(c.common.prefill_chunk, 64);
  c.d_model = std::min<int64_t>(c.d_model, 96);
  c.d_k = std::min<int64_t>(c.d_k, 32);
  c.d_v = std::min<int64_t>(c.d_v, 64);
  c.n_code = std::min<int64_t>(c.n_code, 32);
  c.n_layer = std::min<int64_t>(c.n_layer, 2);
  c.block_len = std::min<int64_t>(c.block_len, 40);
  c.mem_len = std::min<int64_t>(c.mem_len, 40);
  return c;
}

absl::StatusOr<std::unique_ptr<Model>> BuildRandom(const TransformerConfig& config,
                                                   std::shared_ptr<Device> device, DType dtype,
                                                   std::optional<DType> state_dtype,
                                                   const StateReads& reads, int64_t draft_rows) {
  absl::StatusOr<Config> parsed = Config::Parse(ConfigJson(config).dump(), "preset");
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<CommonConfig> common = parsed->Common();
  if (!common.ok()) return common.status();
  absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer = LoadTokenizer("", *common);
  if (!tokenizer.ok()) return tokenizer.status();
  LoadOptions load;
  load.device = std::move(device);
  load.dtype = dtype;
  load.state_dtype = state_dtype;
  load.reads = reads;
  load.draft_rows = draft_rows;
  const std::unique_ptr<WeightSource> weights = RandomWeights(kSeed);
  return BuildModel(*parsed, *weights, *std::move(tokenizer), load);
}

absl::StatusOr<Subject> OpenSubject(const Options& options, int64_t draft_rows) {
  absl::StatusOr<DType> dtype = ParseDType(options.dtype);
  if (!dtype.ok()) return dtype.status();
  std::optional<DType> state_dtype;
  if (!options.state_dtype.empty()) {
    absl::StatusOr<DType> parsed = ParseDType(options.state_dtype);
    if (!parsed.ok()) return parsed.status();
    state_dtype = *parsed;
  }
  absl::StatusOr<std::unique_ptr<Device>> device =
      MakeDevice(options.device, options.threads, options.isa);
  if (!device.ok()) return device.status();
  if (options.profile) TimeEveryOp(**device);

  Subject subject;
  subject.name = options.preset.empty() ? options.model_dir : options.preset;
  subject.device = *std::move(device);
  subject.tf32 = absl::StrContains(options.isa, "tf32");
  absl::StatusOr<std::optional<TransformerConfig>> config =
      options.preset.empty() ? ConfigOf(options.model_dir, options.any_family)
                             : PresetConfig(options.preset);
  if (!config.ok()) return config.status();
  subject.known_shape = config->has_value();
  if (subject.known_shape) subject.config = **std::move(config);
  absl::StatusOr<std::unique_ptr<Model>> model;
  if (options.preset.empty()) {
    LoadOptions load;
    load.device = subject.device;
    load.dtype = *dtype;
    load.state_dtype = state_dtype;
    load.reads = options.reads;
    load.draft_rows = draft_rows;
    model = LoadModel(options.model_dir, load);
  } else {
    model =
        BuildRandom(subject.config, subject.device, *dtype, state_dtype, options.reads, draft_rows);
  }
  if (!model.ok()) return model.status();
  subject.model = *std::move(model);
  if (!subject.model->info().predicts) {
    return absl::InvalidArgumentError(absl::StrCat(subject.name, " predicts no tokens"));
  }
  if (!subject.known_shape) subject.config.common = subject.model->info().config;
  // A recorded step has no ops to time.
  absl::Status prepared = subject.model->Prepare(
      {.decode_rows = *std::max_element(options.batches.begin(), options.batches.end()),
       .record = !options.profile});
  if (!prepared.ok()) return prepared;
  return subject;
}

}  // namespace tvq::bench
