#include "models/runtime/arch/transformer/config.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::transformer {
namespace {

constexpr int64_t kMaxLayers = 4096;

void ReadBlock(Fields& fields, TransformerConfig& c) {
  const bool standard = fields.Choice("block", {"gated", "standard"}) == 1;
  c.block = standard ? Block::kStandard : Block::kGated;
  if (standard) {
    fields.Int("d_ff", &c.d_ff, 1, kMaxDim);
  } else {
    fields.Refuse("d_ff", "only a standard block has an MLP");
  }
}

}  // namespace

void ReadTransformerConfig(Fields& fields, TransformerConfig& c) {
  fields.Common(&c.common);
  ReadBlock(fields, c);
  fields.Int("d_model", &c.d_model, 2, kMaxDim);
  fields.Int("d_k", &c.d_k, 1, kMaxDim);
  fields.Int("d_v", &c.d_v, 1, kMaxDim);
  fields.Int("n_layer", &c.n_layer, 1, kMaxLayers);
  fields.Int("n_head", &c.n_head, 1, kMaxDim, 1);
  fields.Int("n_kv_head", &c.n_kv_head, 1, c.n_head, c.n_head);
  fields.Require(c.n_head % c.n_kv_head == 0, "n_kv_head", c.n_kv_head,
                 absl::StrCat("divide n_head, which is ", c.n_head));
  fields.Require(c.d_model % 2 == 0, "d_model", c.d_model, "be even (sine and cosine halves)");
  fields.Number("pe_lam", &c.pe_lam, 1, 1e30, 100000);
  fields.Number("logit_scale", &c.logit_scale, -1e6, 1e6, 1);
  fields.Bool("pe_abs", &c.pe_abs);
  fields.Bool("tie_word_embeddings", &c.tie_word_embeddings);
  fields.Bool("output_norm", &c.output_norm);
}

void LimitWorkspace(Fields& fields, const TransformerConfig& c) {
  // Products of two dimensions, so none overflows.
  const int64_t keys = c.n_head * c.d_k, values = c.n_head * c.d_v;
  fields.LimitSize("prefill_chunk, n_head, d_k and d_v", c.common.prefill_chunk,
                   2 * c.d_model + 3 * keys + 3 * values);
  if (c.d_ff > 0) fields.LimitSize("prefill_chunk and d_ff", c.common.prefill_chunk, c.d_ff);
}

}  // namespace tvq::transformer
