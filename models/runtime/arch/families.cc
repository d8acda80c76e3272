#include "models/runtime/arch/families.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/encoder/attention.h"
#include "models/runtime/arch/transformer/linear/attention.h"
#include "models/runtime/arch/transformer/model.h"
#include "models/runtime/arch/transformer/softmax/attention.h"
#include "models/runtime/arch/transformer/vq/attention.h"

namespace tvq {
namespace {

// The longest context that is allowed, in tokens; 0: no limit.
int64_t LongestContext(const CommonConfig& config, const LoadOptions& options, bool states_grow) {
  const int64_t own = config.max_position, asked = options.max_model_len;
  if (own > 0 && asked > 0) return std::min(own, asked);
  if (own > 0 || asked > 0) return std::max(own, asked);
  return states_grow ? kDefaultMaxModelLen : 0;
}

bool Grows(transformer::Attention& attention) {
  const auto in_pages = [](const transformer::StatePart& part) { return part.in_pages(); };
  const std::vector<transformer::StatePart>& parts = attention.parts().parts();
  return attention.bidirectional() != nullptr || std::any_of(parts.begin(), parts.end(), in_pages);
}

// Far above any memory, and a few of them still make a number.
constexpr int64_t kMostStateBytes = int64_t{1} << 56;

// A context may be as long as config.json or the options allow.
absl::Status CheckLongest(const Config& config, const transformer::TransformerConfig& parsed,
                          transformer::Attention& attention) {
  const int64_t longest = parsed.common.max_position;
  const auto bytes = [&](int64_t tokens) {
    return transformer::Transformer::StateBytes(parsed, attention, tokens);
  };
  if (bytes(longest) <= kMostStateBytes) return absl::OkStatus();
  int64_t fits = 0, too_long = longest;
  while (too_long - fits > 1) {
    const int64_t between = fits + (too_long - fits) / 2;
    (bytes(between) <= kMostStateBytes ? fits : too_long) = between;
  }
  const absl::Status own = config.Int("max_position", 0, fits, 0).status();
  return own.ok() ? absl::InvalidArgumentError(
                        absl::StrCat("max_model_len is ", longest, ", must be at most ", fits))
                  : own;
}

// The attention of a kind that has a choice of what it reads of a state, and can take rows back.
template <typename Kind>
constexpr bool kReadsAndTakesBack = std::is_constructible_v<Kind, transformer::TransformerConfig,
                                                            Device&, DType, StateReads, int64_t>;

absl::Status CheckReads(const StateReads& reads) {
  const bool is_share = reads.skip_mass >= 0 && reads.skip_mass < 1;
  if (is_share) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("skip_mass is ", reads.skip_mass, ", must be 0 to less than 1"));
}

template <typename Kind>
std::unique_ptr<Kind> MakeAttention(const transformer::TransformerConfig& config,
                                    const LoadOptions& options) {
  if constexpr (kReadsAndTakesBack<Kind>) {
    return std::make_unique<Kind>(config, *options.device, StateDType(options), options.reads,
                                  options.draft_rows);
  } else {
    return std::make_unique<Kind>(config, *options.device, StateDType(options));
  }
}

// A transformer whose attention is a Kind.
template <typename Kind>
absl::StatusOr<std::unique_ptr<Model>> Build(const Config& config, WeightSource& weights,
                                             std::unique_ptr<Tokenizer> tokenizer,
                                             const LoadOptions& options) {
  auto parsed = transformer::ParseTransformerConfig(config);
  if (!parsed.ok()) return parsed.status();
  const DType state_dtype = StateDType(options);
  if (state_dtype != DType::kFloat32 && state_dtype != DType::kBFloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("state_dtype is ", Name(state_dtype), ", must be float32 or bfloat16"));
  }
  if (kReadsAndTakesBack<Kind>) {
    if (absl::Status s = CheckReads(options.reads); !s.ok()) return s;
  }
  auto attention = MakeAttention<Kind>(*parsed, options);
  parsed->common.max_position = LongestContext(parsed->common, options, Grows(*attention));
  absl::Status longest = CheckLongest(config, *parsed, *attention);
  if (!longest.ok()) return longest;
  return transformer::Transformer::Create(*parsed, std::move(attention), weights,
                                          std::move(tokenizer), options);
}

}  // namespace

const std::map<std::string, FamilyBuilder>& FamilyBuilders() {
  static const auto* const builders = new std::map<std::string, FamilyBuilder>{
      {"transformer_vq", &Build<transformer::VqAttention>},
      {"softmax_transformer", &Build<transformer::SoftmaxAttention>},
      {"linear_transformer", &Build<transformer::LinearAttention>},
      {"soft_codebook", &Build<transformer::LinearAttention>},
      {"performer", &Build<transformer::LinearAttention>},
      {"vq_encoder", &Build<transformer::EncoderAttention>},
  };
  return *builders;
}

}  // namespace tvq
