#include "models/runtime/families/family.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// Far above any memory, and small enough that sums of a few do not overflow.
constexpr int64_t kMostStateBytes = int64_t{1} << 56;

}  // namespace

absl::StatusOr<TransformerConfig> ParseTransformer(const Family& family, const Config& config,
                                                   const LoadOptions& options) {
  auto parsed = ParseTransformerConfig(config, family.fields);
  if (!parsed.ok()) return parsed;
  if (absl::Status s = CheckStateDType(options); !s.ok()) return s;
  return parsed;
}

absl::Status CheckStateDType(const LoadOptions& options) {
  const DType dtype = StateDType(options);
  if (dtype == DType::kFloat32 || dtype == DType::kBFloat16) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("state_dtype is ", Name(dtype), ", must be float32 or bfloat16"));
}

int64_t LongestContext(const CommonConfig& config, const LoadOptions& options, bool states_grow) {
  const int64_t own = config.max_position, asked = options.max_model_len;
  if (own > 0 && asked > 0) return std::min(own, asked);
  if (own > 0 || asked > 0) return std::max(own, asked);
  return states_grow ? kDefaultMaxModelLen : 0;
}

absl::Status CheckLongest(const Config& config, int64_t longest,
                          const std::function<int64_t(int64_t tokens)>& bytes) {
  if (bytes(longest) <= kMostStateBytes) return absl::OkStatus();
  int64_t fits = 0, too_long = longest;
  while (too_long - fits > 1) {
    const int64_t between = fits + (too_long - fits) / 2;
    (bytes(between) <= kMostStateBytes ? fits : too_long) = between;
  }
  // The field that Config::Common reads.
  const char* const name = config.Has("max_position") ? "max_position" : "max_position_embeddings";
  const absl::Status own = config.Int(name, 0, fits, 0).status();
  return own.ok() ? absl::InvalidArgumentError(
                        absl::StrCat("max_model_len is ", longest, ", must be at most ", fits))
                  : own;
}

absl::StatusOr<std::unique_ptr<Model>> BuildStack(const Config& config, StackConfig parsed,
                                                  StackLayers layers, WeightSource& weights,
                                                  std::unique_ptr<Tokenizer> tokenizer,
                                                  const LoadOptions& options) {
  const bool grow = LayoutOf(parsed, layers).page_bytes() > 0;
  parsed.common.max_position = LongestContext(parsed.common, options, grow);
  const StateLayout layout = LayoutOf(parsed, layers);
  const absl::Status longest = CheckLongest(config, layout.max_position(),
                                            [&](int64_t tokens) { return layout.Bytes(tokens); });
  if (!longest.ok()) return longest;
  return Stack::Create(parsed, std::move(layers), weights, std::move(tokenizer), options);
}

absl::StatusOr<std::unique_ptr<Model>> BuildRecurrent(const Config& config, StackConfig parsed,
                                                      StackLayers layers, WeightSource& weights,
                                                      std::unique_ptr<Tokenizer> tokenizer,
                                                      const LoadOptions& options) {
  if (absl::Status s = CheckStateDType(options); !s.ok()) return s;
  if (!config.Has("max_position")) parsed.common.max_position = 0;
  return BuildStack(config, std::move(parsed), std::move(layers), weights, std::move(tokenizer),
                    options);
}

}  // namespace tvq
