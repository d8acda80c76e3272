#include "models/runtime/families/transformer/transformer_config.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/config/config_fields.h"
#include "models/runtime/stack/stack_config.h"

namespace tvq {
namespace {

// The square of sigma, and quotients by it, must fit float32.
constexpr double kLeastSigma = 1e-15, kLargestSigma = 1e15;

// Fields that only some kinds of attention have.
constexpr std::array<const char*, 6> kKindFields = {"block_len", "mem_len",       "n_code",
                                                    "n_feature", "position_bias", "sigma"};

void ReadBlock(ConfigFields& fields, TransformerConfig& c) {
  const bool standard = fields.Choice("block", {"gated", "standard"}) == 1;
  c.block = standard ? Block::kStandard : Block::kGated;
  c.norm = standard ? Norm::kLayer : Norm::kRms;
  if (standard) {
    fields.Int("d_ff", &c.d_ff, 1, kMaxDim);
  } else {
    fields.Refuse("d_ff", "only a standard block has an MLP");
  }
}

void ReadShape(ConfigFields& fields, TransformerConfig& c) {
  fields.Int("d_k", &c.d_k, 1, kMaxDim);
  fields.Int("d_v", &c.d_v, 1, kMaxDim);
  fields.Int("n_layer", &c.n_layer, 1, kMaxLayers);
  fields.Int("n_head", &c.n_head, 1, kMaxDim, 1);
  fields.Int("n_kv_head", &c.n_kv_head, 1, c.n_head, c.n_head);
  fields.Require(c.n_head % c.n_kv_head == 0, "n_kv_head", c.n_kv_head,
                 absl::StrCat("divide n_head, which is ", c.n_head));
}

// The form rerope needs codes: keys in a cache are not turned by distance.
void ReadPositionBias(ConfigFields& fields, bool has_codes, TransformerConfig& c) {
  std::vector<std::string> forms = {"relative", "toeplitz"};
  if (has_codes) forms.emplace_back("rerope");
  c.position_bias = static_cast<PositionBias>(fields.Choice("position_bias", forms));
  fields.Require(c.position_bias != PositionBias::kRerope || c.d_k % 2 == 0, "d_k", c.d_k,
                 "be even (it is turned in pairs)");
}

void ReadKindField(ConfigFields& fields, const KindFields& kind, const std::string& name,
                   TransformerConfig& c) {
  if (name == "position_bias") return ReadPositionBias(fields, kind.Has("n_code"), c);
  if (name == "sigma") return fields.Number("sigma", &c.sigma, kLeastSigma, kLargestSigma);
  const int64_t least = name == "mem_len" ? 0 : 1;  // with 0 a position reaches itself alone
  int64_t* const value = name == "n_code"      ? &c.n_code
                         : name == "block_len" ? &c.block_len
                         : name == "mem_len"   ? &c.mem_len
                                               : &c.n_feature;
  fields.Int(name.c_str(), value, least, kMaxDim);
}

void ReadKindFields(ConfigFields& fields, const KindFields& kind, TransformerConfig& c) {
  for (const char* name : kKindFields) {
    if (kind.Has(name)) continue;
    fields.Refuse(name, absl::StrCat("a ", c.common.model_type, " has none"));
  }
  for (const char* name : kind.required) ReadKindField(fields, kind, name, c);
  for (const char* name : kind.optional) {
    if (fields.config().Has(name)) ReadKindField(fields, kind, name, c);
  }
}

// Limits sizes that no tensor of the checkpoint has, so that no other check would stop a config of
// a few bytes from asking for terabytes.
void LimitSizes(ConfigFields& fields, const TransformerConfig& c) {
  const int64_t rows = c.rows(), keys = c.n_head * c.d_k, values = c.n_head * c.d_v;
  const int64_t table = c.n_code + c.n_feature;  // a kind has one of them, or neither
  const int64_t features = table > 0 ? table : c.d_k;
  fields.LimitSize("prefill_chunk, n_head, d_k and d_v", rows,
                   2 * c.d_model + 3 * keys + 3 * values);
  fields.LimitSize("prefill_chunk and d_ff", rows, c.d_ff);
  fields.LimitSize("prefill_chunk, n_head, n_code, n_feature and mem_len", rows,
                   c.n_head * (2 * table + c.window()));
  fields.LimitSize("mem_len and d_model", c.window(), c.d_model);
  fields.LimitSize("n_layer, mem_len, n_head and d_k", c.n_layer * c.window(), keys);
  fields.LimitSize("n_kv_head, d_k, n_code, n_feature and d_v", c.n_kv_head * features, c.d_v);
  fields.LimitSize("n_kv_head, mem_len and d_v", c.n_kv_head * c.window(), c.d_v);
}

}  // namespace

bool KindFields::Has(std::string_view field) const {
  const auto is_it = [field](const char* name) { return field == name; };
  return std::ranges::any_of(required, is_it) || std::ranges::any_of(optional, is_it);
}

absl::StatusOr<TransformerConfig> ParseTransformerConfig(const Config& config,
                                                         const KindFields& kind) {
  TransformerConfig c;
  ConfigFields fields(config);
  ReadStackConfig(fields, &c);
  ReadBlock(fields, c);
  ReadShape(fields, c);
  if (fields.ok()) ReadKindFields(fields, kind, c);
  if (fields.ok()) LimitSizes(fields, c);
  if (!fields.ok()) return fields.status();
  return c;
}

}  // namespace tvq
