#include "models/runtime/arch/families.h"

#include "models/runtime/arch/transformer_vq/model.h"

namespace tvq {

const std::map<std::string, FamilyBuilder>& FamilyBuilders() {
  static const auto* const builders = new std::map<std::string, FamilyBuilder>{
      {transformer_vq::kFamily, &transformer_vq::VqModel::Create},
  };
  return *builders;
}

}  // namespace tvq
