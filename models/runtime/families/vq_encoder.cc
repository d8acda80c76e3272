#include <memory>
#include <utility>

#include "models/runtime/families/encoder/model.h"
#include "models/runtime/families/family.h"

namespace tvq {
namespace {

absl::StatusOr<std::unique_ptr<Model>> BuildEncoder(const Family& family, const Config& config,
                                                    WeightSource& weights,
                                                    std::unique_ptr<Tokenizer> tokenizer,
                                                    const LoadOptions& options) {
  auto parsed = ParseTransformer(family, config, options);
  if (!parsed.ok()) return parsed.status();
  int64_t& longest = parsed->common.max_position;
  longest = LongestContext(parsed->common, options, /*states_grow=*/true);
  absl::Status s = CheckLongest(
      config, longest, [&](int64_t tokens) { return EncoderModel::TextBytes(*parsed, tokens); });
  if (!s.ok()) return s;
  return EncoderModel::Create(*parsed, weights, std::move(tokenizer), options);
}

}  // namespace

Family VqEncoderFamily() { return {"vq_encoder", {{"n_code"}, {}}, &BuildEncoder}; }

}  // namespace tvq
