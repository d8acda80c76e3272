#include "models/runtime/stack/stack_config.h"

namespace tvq {

void ReadStackConfig(ConfigFields& fields, StackConfig* config) {
  StackConfig& c = *config;
  fields.Common(&c.common);
  fields.Int("d_model", &c.d_model, 2, kMaxDim);
  fields.Require(c.d_model % 2 == 0, "d_model", c.d_model, "be even (sine and cosine halves)");
  fields.Number("pe_lam", &c.pe_lam, 1, 1e30, 100000);
  fields.Number("logit_scale", &c.logit_scale, -1e6, 1e6, 1);
  fields.Bool("pe_abs", &c.pe_abs);
  fields.Bool("tie_word_embeddings", &c.tie_word_embeddings);
  fields.Bool("output_norm", &c.output_norm);
}

}  // namespace tvq
