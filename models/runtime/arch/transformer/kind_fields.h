// Which of config.json's fields are a kind's own (docs/model-format.md). models/training/config.py
// has the same table.
#ifndef TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_KIND_FIELDS_H_
#define TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_KIND_FIELDS_H_

#include <span>
#include <string_view>
#include <vector>

namespace tvq::transformer {

// Of the fields that some kinds of attention lack: those that a kind must have, and may have.
struct KindFields {
  const char* model_type;
  std::vector<const char*> required;
  std::vector<const char*> optional;

  bool Has(std::string_view field) const;
};

std::span<const KindFields> AllKindFields();

// Null: there is no such kind.
const KindFields* FindKindFields(std::string_view model_type);

}  // namespace tvq::transformer

#endif  // TVQ_MODELS_RUNTIME_ARCH_TRANSFORMER_KIND_FIELDS_H_
