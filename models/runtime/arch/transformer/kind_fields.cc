#include "models/runtime/arch/transformer/kind_fields.h"

namespace tvq::transformer {

std::span<const KindFields> AllKindFields() {
  static const auto* const kinds = new std::vector<KindFields>{
      {"transformer_vq", {"n_code", "block_len", "mem_len"}, {"position_bias"}},
      {"softmax_transformer", {"mem_len"}, {"block_len", "position_bias"}},
      {"linear_transformer", {}, {"block_len"}},
      {"soft_codebook", {"n_code", "sigma"}, {"block_len"}},
      {"performer", {"n_feature"}, {"block_len"}},
      {"vq_encoder", {"n_code"}, {}},
  };
  return *kinds;
}

bool KindFields::Has(std::string_view field) const {
  for (const auto* list : {&required, &optional}) {
    for (const char* name : *list) {
      if (field == name) return true;
    }
  }
  return false;
}

const KindFields* FindKindFields(std::string_view model_type) {
  for (const KindFields& kind : AllKindFields()) {
    if (model_type == kind.model_type) return &kind;
  }
  return nullptr;
}

}  // namespace tvq::transformer
