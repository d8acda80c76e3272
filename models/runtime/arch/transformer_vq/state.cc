#include "models/runtime/arch/transformer_vq/state.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "models/runtime/arch/transformer_vq/sections.h"

namespace tvq::transformer_vq {
namespace {

// Far above any session, and far enough from the largest integer for sums of positions.
constexpr int64_t kLargestPosition = int64_t{1} << 62;

int64_t Aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Splitmix64 (Steele, Lea, Flood 2014): enough for synthetic values.
uint64_t NextRandom(uint64_t& s) {
  uint64_t z = (s += 0x9E3779B97F4A7C15ULL);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

// About the size of silu outputs: uniform in [-0.5, 0.5).
float NextValue(uint64_t& s) { return static_cast<float>(NextRandom(s) >> 40) * 0x1p-24F - 0.5F; }

}  // namespace

StateLayout::StateLayout(const VqConfig& c, DType value_dtype)
    : shape_{c.n_kv_head, c.n_code, c.window(), c.d_v, value_dtype}, layers_(c.n_layer) {
  const int64_t accumulator = Aligned(c.n_kv_head * c.n_code * c.d_v * 4);
  carry_ = accumulator;
  count_ = 2 * accumulator;
  code_ = count_ + Aligned(c.n_kv_head * c.n_code * 8);
  value_ = code_ + Aligned(c.n_kv_head * c.window() * 4);
  layer_bytes_ = value_ + Aligned(c.n_kv_head * c.window() * c.d_v *
                                  static_cast<int64_t>(SizeOf(value_dtype)));
}

VqState StateLayout::Layer(std::byte* base, int64_t layer) const {
  std::byte* p = base + layer * layer_bytes_;
  VqState state;
  state.sum = reinterpret_cast<float*>(p);
  state.carry = reinterpret_cast<float*>(p + carry_);
  state.count = reinterpret_cast<int64_t*>(p + count_);
  state.window_code = reinterpret_cast<int32_t*>(p + code_);
  state.window_value = p + value_;
  return state;
}

absl::StatusOr<std::unique_ptr<VqSessionState>> VqSessionState::Create(Device& device,
                                                                       const StateLayout& layout) {
  absl::StatusOr<Device::Reusable> memory =
      device.AllocateReusable(static_cast<size_t>(layout.bytes()));
  if (!memory.ok()) return memory.status();
  return In(*std::move(memory), device, layout);
}

std::unique_ptr<VqSessionState> VqSessionState::In(Device::Reusable memory, Device& device,
                                                   const StateLayout& layout) {
  return std::unique_ptr<VqSessionState>(new VqSessionState(device, layout, std::move(memory)));
}

absl::Status VqSessionState::Write() {
  if (written_) return absl::OkStatus();
  written_ = true;
  return device_.Zero(memory_.data(), memory_.bytes());
}

VqState VqSessionState::Layer(int64_t layer) const {
  if (!written_) std::abort();  // would show another session's past
  return layout_.Layer(memory_.as<std::byte>(), layer);
}

absl::Status VqSessionState::CopyFrom(const State& other) {
  const auto* source = dynamic_cast<const VqSessionState*>(&other);
  if (source == nullptr || &source->layout_ != &layout_) {
    return absl::FailedPreconditionError("the state to copy belongs to another model");
  }
  if (!source->written_) return Reset();
  position_ = source->position_;
  written_ = true;
  return device_.CopyWithin(memory_.data(), source->memory_.data(), memory_.bytes());
}

absl::Status VqSessionState::Reset() {
  position_ = 0;
  written_ = false;
  return absl::OkStatus();
}

std::vector<SectionInfo> VqSessionState::Sections() const {
  std::vector<SectionInfo> all;
  for (int64_t l = 0; l < layout_.layers(); ++l) {
    const auto sections = LayerSections(layout_.shape(), l, position_);
    all.insert(all.end(), sections.begin(), sections.end());
  }
  return all;
}

absl::Status VqSessionState::VisitSectionsFrom(size_t first, const SectionVisitor& visit) const {
  std::vector<std::byte> host(static_cast<size_t>(layout_.layer_bytes()));
  const auto sections = static_cast<int64_t>(first);
  for (int64_t l = sections / kLayerSections; l < layout_.layers(); ++l) {
    absl::Status s;
    if (written_) s = device_.CopyToHost(host.data(), LayerMemory(l), host.size());
    if (!s.ok()) return s;
    const int64_t skipped = std::max<int64_t>(0, sections - l * kLayerSections);
    s = VisitLayer(layout_.shape(), l, position_, layout_.Layer(host.data(), 0), skipped, visit);
    if (!s.ok()) return s;
  }
  return absl::OkStatus();
}

absl::Status VqSessionState::Load(int64_t position, const SectionReader& read) {
  if (position < 0 || position > kLargestPosition) {
    return absl::InvalidArgumentError(
        absl::StrCat("position is ", position, ", must be 0 to ", kLargestPosition));
  }
  std::vector<std::byte> host(static_cast<size_t>(layout_.layer_bytes()));
  for (int64_t l = 0; l < layout_.layers(); ++l) {
    std::fill(host.begin(), host.end(), std::byte{0});
    absl::Status s = ReadLayer(layout_.shape(), l, position, read, layout_.Layer(host.data(), 0));
    if (s.ok()) s = device_.CopyFromHost(LayerMemory(l), host.data(), host.size());
    if (s.ok()) continue;
    if (absl::Status reset = Reset(); !reset.ok()) return reset;
    return s;
  }
  position_ = position;
  written_ = true;
  return absl::OkStatus();
}

absl::Status VqSessionState::Synthesize(int64_t position, uint64_t seed) {
  if (position < 0) {
    return absl::InvalidArgumentError(absl::StrCat("position is ", position, ", must be >= 0"));
  }
  const VqShape& shape = layout_.shape();
  const int64_t recent = std::min(position, shape.window);
  const int64_t retired = position - recent;
  std::vector<std::byte> host(memory_.bytes());
  uint64_t random = seed;
  for (int64_t l = 0; l < layout_.layers(); ++l) {
    const VqState layer = layout_.Layer(host.data(), l);
    for (int64_t r = 0; r < shape.kv_heads * shape.codes; ++r) {
      const int64_t code = r % shape.codes;
      const int64_t n = retired / shape.codes + (code < retired % shape.codes ? 1 : 0);
      layer.count[r] = n;
      float* sum = layer.sum + r * shape.value;
      for (int64_t i = 0; i < shape.value; ++i) sum[i] = NextValue(random) * static_cast<float>(n);
    }
    for (int64_t g = 0; g < shape.kv_heads; ++g) {
      for (int64_t i = 0; i < recent; ++i) {
        const int64_t slot = g * shape.window + (retired + i) % shape.window;
        layer.window_code[slot] =
            static_cast<int32_t>(NextRandom(random) % static_cast<uint64_t>(shape.codes));
        for (int64_t v = 0; v < shape.value; ++v) {
          const float value = NextValue(random);
          if (shape.value_dtype == DType::kFloat32) {
            static_cast<float*>(layer.window_value)[slot * shape.value + v] = value;
          } else {
            static_cast<BFloat16*>(layer.window_value)[slot * shape.value + v] = ToBFloat16(value);
          }
        }
      }
    }
  }
  position_ = position;
  written_ = true;
  return device_.CopyFromHost(memory_.data(), host.data(), host.size());
}

}  // namespace tvq::transformer_vq
