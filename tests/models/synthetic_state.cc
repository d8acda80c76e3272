#include "tests/models/synthetic_state.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "kernels/numbers/bfloat16.h"

namespace tvq {
namespace {

// Splitmix64 (Steele, Lea, Flood 2014): enough for synthetic values.
class Values {
 public:
  explicit Values(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ULL);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }

  // About the size of silu outputs: uniform in [-0.5, 0.5).
  float NextValue() { return static_cast<float>(Next() >> 40) * 0x1p-24F - 0.5F; }

 private:
  uint64_t state_;
};

// The sections of one layer, by what follows "layers.N.".
class Layer {
 public:
  void Add(const std::string& name, const SectionInfo& info) {
    contents_[name] = {&info, std::vector<std::byte>(static_cast<size_t>(info.bytes))};
  }
  bool Has(const std::string& name) const { return contents_.contains(name); }
  std::span<const std::byte> bytes(const std::string& name) const {
    return contents_.at(name).second;
  }
  int64_t dim(const std::string& name, size_t i) const {
    return contents_.at(name).first->shape[i];
  }
  int64_t size(const std::string& name) const {
    const SectionInfo& info = *contents_.at(name).first;
    return info.bytes / info.element_bytes;
  }
  template <typename T>
  T* At(const std::string& name) {
    return reinterpret_cast<T*>(contents_.at(name).second.data());
  }
  // Of a section of float32 or bfloat16: sets element `i`.
  std::function<void(int64_t i, float value)> Setter(const std::string& name) {
    if (contents_.at(name).first->element_bytes == 4) {
      return [to = At<float>(name)](int64_t i, float value) { to[i] = value; };
    }
    return [to = At<BFloat16>(name)](int64_t i, float value) { to[i] = ToBFloat16(value); };
  }

 private:
  std::map<std::string, std::pair<const SectionInfo*, std::vector<std::byte>>> contents_;
};

// Codes that take turns: where keys are kept the last one is that of position 0 alone.
int64_t TurningCodes(const Layer& layer) {
  return layer.dim("acc_sum", 1) - (layer.Has("win_key") ? 1 : 0);
}

// Codes take turns at retiring; what they summed is the count times a value.
void FillAccumulator(Layer& layer, int64_t position, Values& values) {
  const int64_t codes = layer.dim("acc_sum", 1), width = layer.dim("acc_sum", 2);
  const int64_t turning = TurningCodes(layer);
  const int64_t retired = position - layer.dim("win_code", 1);
  const int64_t first = turning < codes && retired > 0 ? 1 : 0;
  auto* const counts = layer.At<int64_t>("acc_count");
  auto* const sums = layer.At<float>("acc_sum");
  for (int64_t row = 0; row < layer.size("acc_count"); ++row) {
    const int64_t code = row % codes, rest = retired - first;
    const int64_t n = code == turning ? first : rest / turning + (code < rest % turning ? 1 : 0);
    counts[row] = n;
    for (int64_t i = 0; i < width; ++i) {
      sums[row * width + i] = values.NextValue() * static_cast<float>(n);
    }
  }
}

void FillWindow(Layer& layer, int64_t position, Values& values) {
  const auto turning = static_cast<uint64_t>(TurningCodes(layer));
  const int64_t kept = layer.dim("win_code", 1), width = layer.dim("win_value", 2);
  const bool sink = layer.Has("win_key") && position == kept;  // position 0 is in the window
  const auto set = layer.Setter("win_value");
  for (int64_t slot = 0; slot < layer.size("win_code"); ++slot) {
    layer.At<int32_t>("win_code")[slot] =
        static_cast<int32_t>(sink && slot % kept == 0 ? turning : values.Next() % turning);
    for (int64_t i = 0; i < width; ++i) set(slot * width + i, values.NextValue());
  }
}

void FillSums(Layer& layer, int64_t position, Values& values) {
  auto* const keys = layer.At<float>("key_sum");
  auto* const products = layer.At<float>("key_value_sum");
  const int64_t width = layer.dim("key_value_sum", 2);
  for (int64_t i = 0; i < layer.size("key_sum"); ++i) {
    keys[i] = (1 + values.NextValue()) * static_cast<float>(position);
  }
  for (int64_t i = 0; i < layer.size("key_value_sum"); ++i) {
    products[i] = values.NextValue() * keys[i / width];
  }
}

void FillValues(Layer& layer, const char* name, Values& values) {
  const auto set = layer.Setter(name);
  for (int64_t i = 0; i < layer.size(name); ++i) set(i, values.NextValue());
}

// Rows of inputs that no token was fed to are zero, as is the matrix at the beginning.
void FillRecurrent(Layer& layer, int64_t position, Values& values) {
  const int64_t unfed = std::max<int64_t>(0, layer.dim("inputs", 0) - position);
  auto* const inputs = layer.At<float>("inputs");
  for (int64_t i = unfed * layer.dim("inputs", 1); i < layer.size("inputs"); ++i) {
    inputs[i] = values.NextValue();
  }
  if (layer.Has("matrix") && position > 0) FillValues(layer, "matrix", values);
}

void Fill(Layer& layer, int64_t position, Values& values) {
  if (layer.Has("inputs")) {
    FillRecurrent(layer, position, values);
  } else if (layer.Has("acc_sum")) {
    FillAccumulator(layer, position, values);
    FillWindow(layer, position, values);
    for (const char* name : {"win_key", "sink_key"}) {
      if (layer.Has(name)) FillValues(layer, name, values);
    }
  } else if (layer.Has("key_value_sum")) {
    FillSums(layer, position, values);
  } else {
    for (const char* name : {"key", "value"}) FillValues(layer, name, values);
  }
}

// "layers.N." of "layers.N.name"
std::string Prefix(const SectionInfo& info) {
  return info.name.substr(0, info.name.rfind('.') + 1);
}

}  // namespace

absl::Status Synthesize(State& state, std::span<const SectionInfo> sections, int64_t position,
                        uint64_t seed) {
  Values values(seed);
  std::string prefix;
  Layer layer;
  return state.Load(position, [&](const SectionInfo& info, std::span<std::byte> out) {
    if (Prefix(info) != prefix) {
      prefix = Prefix(info);
      layer = Layer();
      for (const SectionInfo& section : sections) {
        if (Prefix(section) == prefix) layer.Add(section.name.substr(prefix.size()), section);
      }
      Fill(layer, position, values);
    }
    const std::span<const std::byte> bytes = layer.bytes(info.name.substr(prefix.size()));
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return absl::OkStatus();
  });
}

}  // namespace tvq
