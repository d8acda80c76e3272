#include "models/runtime/arch/transformer/vq/layout.h"

#include <algorithm>

#include "models/runtime/arch/transformer/memory_parts.h"
#include "models/runtime/arch/transformer/vq/sections.h"

namespace tvq::transformer {

VqLayout::VqLayout(const TransformerConfig& c, DType value_dtype, VqRead read)
    : StateLayout(c.n_layer), shape_{c.n_kv_head, c.n_code, c.window(), c.d_v, value_dtype, read} {
  const int64_t accumulator = Aligned(c.n_kv_head * c.n_code * c.d_v * 4);
  carry_ = accumulator;
  count_ = 2 * accumulator;
  code_ = count_ + Aligned(c.n_kv_head * c.n_code * 8);
  value_ = code_ + Aligned(c.n_kv_head * c.window() * 4);
  layer_bytes_ = value_ + Aligned(c.n_kv_head * c.window() * c.d_v *
                                  static_cast<int64_t>(SizeOf(value_dtype)));
  if (read == VqRead::kExact) return;
  const int64_t codes = c.n_kv_head * c.n_code, slots = c.n_kv_head * c.window();
  mean_ = layer_bytes_;
  mean_scale_ = mean_ + Aligned(codes * c.d_v);
  recent_ = mean_scale_ + Aligned(codes * shape_.scales() * 4);
  recent_scale_ = recent_ + Aligned(slots * c.d_v);
  layer_bytes_ = recent_scale_ + Aligned(slots * shape_.scales() * 4);
}

VqState VqLayout::At(std::byte* p) const {
  VqState state;
  state.sum = reinterpret_cast<float*>(p);
  state.carry = reinterpret_cast<float*>(p + carry_);
  state.count = reinterpret_cast<int64_t*>(p + count_);
  state.window_code = reinterpret_cast<int32_t*>(p + code_);
  state.window_value = p + value_;
  if (shape_.read == VqRead::kExact) return state;
  state.mean = reinterpret_cast<int8_t*>(p + mean_);
  state.mean_scale = reinterpret_cast<float*>(p + mean_scale_);
  state.recent = reinterpret_cast<int8_t*>(p + recent_);
  state.recent_scale = reinterpret_cast<float*>(p + recent_scale_);
  return state;
}

std::vector<SectionInfo> VqLayout::Sections(int64_t layer, int64_t position) const {
  const auto sections = VqSections(shape_, layer, position);
  return {sections.begin(), sections.end()};
}

absl::Status VqLayout::Visit(int64_t layer, int64_t position, std::byte* host, int64_t skipped,
                             const State::SectionVisitor& visit) const {
  return VisitVqSections(shape_, layer, position, At(host), skipped, visit);
}

absl::Status VqLayout::Load(int64_t layer, int64_t position, const State::SectionReader& read,
                            std::byte* host) const {
  absl::Status s = ReadVqSections(shape_, layer, position, read, At(host));
  if (s.ok()) BuildReadCopy(At(host));
  return s;
}

void VqLayout::BuildReadCopy(const VqState& host) const {
  if (shape_.read != VqRead::kExact) BuildVqReadCopy(shape_, host);
}

void VqLayout::Synthesize(int64_t position, SyntheticValues& values, std::byte* host) const {
  const VqState layer = At(host);
  const int64_t recent = std::min(position, shape_.window);
  const int64_t retired = position - recent;
  for (int64_t r = 0; r < shape_.kv_heads * shape_.codes; ++r) {
    const int64_t code = r % shape_.codes;
    const int64_t n = retired / shape_.codes + (code < retired % shape_.codes ? 1 : 0);
    layer.count[r] = n;
    float* sum = layer.sum + r * shape_.value;
    for (int64_t i = 0; i < shape_.value; ++i) sum[i] = values.NextValue() * static_cast<float>(n);
  }
  for (int64_t g = 0; g < shape_.kv_heads; ++g) {
    for (int64_t i = 0; i < recent; ++i) {
      const int64_t slot = g * shape_.window + (retired + i) % shape_.window;
      layer.window_code[slot] =
          static_cast<int32_t>(values.Next() % static_cast<uint64_t>(shape_.codes));
      for (int64_t v = 0; v < shape_.value; ++v) {
        values.SetNext(layer.window_value, shape_.value_dtype, slot * shape_.value + v);
      }
    }
  }
  BuildReadCopy(layer);
}

}  // namespace tvq::transformer
