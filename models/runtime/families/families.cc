#include "models/runtime/families/families.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quoted.h"

namespace tvq {

const std::vector<Family>& AllFamilies() {
  static const auto* const families = new std::vector<Family>{
      LinearTransformerFamily(),
      LlamaFamily(),
      Mamba2Family(),
      MistralFamily(),
      PerformerFamily(),
      Qwen2Family(),
      Qwen3Family(),
      Qwen35TextFamily(),
      Rwkv7Family(),
      SoftCodebookFamily(),
      SoftmaxTransformerFamily(),
      TransformerVqFamily(),
      VqEncoderFamily(),
  };
  return *families;
}

absl::StatusOr<const Family*> FindFamily(const Config& config) {
  const absl::StatusOr<std::string> type = config.String("model_type");
  if (!type.ok()) return type.status();
  const std::vector<Family>& families = AllFamilies();
  const auto found = std::ranges::find(families, *type, &Family::model_type);
  if (found != families.end()) return &*found;
  const auto name = [](std::string* out, const Family& family) { *out += family.model_type; };
  return absl::InvalidArgumentError(
      absl::StrCat(config.source(), ": model_type is ", Quoted(*type),
                   ", must be one of: ", absl::StrJoin(families, ", ", name)));
}

}  // namespace tvq
