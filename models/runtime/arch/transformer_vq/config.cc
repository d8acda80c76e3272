#include "models/runtime/arch/transformer_vq/config.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::transformer_vq {
namespace {

// Generous limits that keep every product of two dimensions far from overflow.
constexpr int64_t kMaxDim = 1 << 20;
constexpr int64_t kMaxLayers = 4096;
// Floats of one table or of the working memory, 4 GiB. No tensor of the checkpoint has the size of
// mem_len or prefill_chunk, so nothing else would stop a config of a few bytes from asking for
// terabytes.
constexpr int64_t kMaxFloats = int64_t{1} << 30;

// INVALID_ARGUMENT naming `fields` when rows * width floats are more than kMaxFloats.
absl::Status CheckSize(const Config& config, const char* fields, int64_t rows, int64_t width) {
  if (rows <= kMaxFloats / width) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(config.source(), ": ", fields,
                                                 " together ask for ", rows, " x ", width,
                                                 " numbers, must be at most ", kMaxFloats));
}

}  // namespace

absl::StatusOr<VqConfig> ParseConfig(const Config& config) {
  VqConfig c;
  absl::StatusOr<CommonConfig> common = config.Common();
  if (!common.ok()) return common.status();
  c.common = *std::move(common);

  struct IntField {
    const char* name;
    int64_t* value;
    int64_t min, max;
    std::optional<int64_t> fallback;
  };
  auto read = [&](const IntField& f) -> absl::Status {
    absl::StatusOr<int64_t> v = config.Int(f.name, f.min, f.max, f.fallback);
    if (!v.ok()) return v.status();
    *f.value = *v;
    return absl::OkStatus();
  };
  for (const IntField& f :
       {IntField{"d_model", &c.d_model, 2, kMaxDim, {}}, IntField{"d_k", &c.d_k, 1, kMaxDim, {}},
        IntField{"d_v", &c.d_v, 1, kMaxDim, {}}, IntField{"n_code", &c.n_code, 1, kMaxDim, {}},
        IntField{"n_layer", &c.n_layer, 1, kMaxLayers, {}},
        IntField{"n_head", &c.n_head, 1, kMaxDim, 1},
        IntField{"block_len", &c.block_len, 1, kMaxDim, {}},
        IntField{"mem_len", &c.mem_len, 0, kMaxDim, {}}}) {
    if (absl::Status s = read(f); !s.ok()) return s;
  }
  if (absl::Status s = read({"n_kv_head", &c.n_kv_head, 1, c.n_head, c.n_head}); !s.ok()) return s;
  if (c.n_head % c.n_kv_head != 0) {
    return absl::InvalidArgumentError(absl::StrCat(config.source(), ": n_kv_head is ", c.n_kv_head,
                                                   ", must divide n_head, which is ", c.n_head));
  }
  if (c.d_model % 2 != 0) {
    return absl::InvalidArgumentError(absl::StrCat(config.source(), ": d_model is ", c.d_model,
                                                   ", must be even (sine and cosine halves)"));
  }

  // Each product below is of factors up to 2^20, so none overflows.
  const int64_t keys = c.n_head * c.d_k, values = c.n_head * c.d_v;
  absl::Status sizes = CheckSize(config, "mem_len and d_model", c.window(), c.d_model);
  sizes.Update(CheckSize(config, "mem_len, n_head and d_k", c.window(), keys));
  sizes.Update(CheckSize(config, "prefill_chunk, n_head, d_k and d_v", c.common.prefill_chunk,
                         2 * c.d_model + 3 * keys + 3 * values));
  sizes.Update(CheckSize(config, "prefill_chunk, n_head, n_code and mem_len",
                         c.common.prefill_chunk, c.n_head * (c.n_code + c.window())));
  sizes.Update(CheckSize(config, "n_kv_head, n_code and d_v", c.n_kv_head * c.n_code, c.d_v));
  sizes.Update(CheckSize(config, "n_kv_head, mem_len and d_v", c.n_kv_head * c.window(), c.d_v));
  if (!sizes.ok()) return sizes;

  absl::StatusOr<double> lam = config.Number("pe_lam", 1, 1e30, 100000);
  if (!lam.ok()) return lam.status();
  c.pe_lam = *lam;
  absl::StatusOr<double> scale = config.Number("logit_scale", -1e6, 1e6, 1);
  if (!scale.ok()) return scale.status();
  c.logit_scale = *scale;

  struct BoolField {
    const char* name;
    bool* value;
  };
  for (const BoolField& f :
       {BoolField{"pe_abs", &c.pe_abs}, BoolField{"tie_word_embeddings", &c.tie_word_embeddings},
        BoolField{"output_norm", &c.output_norm}}) {
    absl::StatusOr<bool> v = config.Bool(f.name, false);
    if (!v.ok()) return v.status();
    *f.value = *v;
  }
  return c;
}

}  // namespace tvq::transformer_vq
