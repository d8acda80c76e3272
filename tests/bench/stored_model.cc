#include "tests/bench/stored_model.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "kernels/numbers/bfloat16.h"
#include "models/runtime/registry/registry.h"
#include "models/runtime/weights.h"
#include "tests/models/runtime/random_weights.h"

namespace tvq::bench {
namespace {

// What a model asks for, and random weights for it.
class Recorder : public WeightSource {
 public:
  absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) override {
    absl::StatusOr<HostTensor> tensor = source_->Get(name, shape);
    if (tensor.ok()) tensors_[std::string(name)] = *tensor;
    return tensor;
  }
  bool Has(std::string_view name) const override { return source_->Has(name); }
  std::string Digest() const override { return source_->Digest(); }
  const std::map<std::string, HostTensor>& tensors() const { return tensors_; }

 private:
  const std::unique_ptr<WeightSource> source_ = RandomWeights(1);
  std::map<std::string, HostTensor> tensors_;
};

std::string BytesOf(const HostTensor& tensor, HostDType dtype) {
  std::string bytes(static_cast<size_t>(tensor.ElementCount()) * ElementSize(dtype), '\0');
  if (dtype == HostDType::kF32) {
    std::memcpy(bytes.data(), tensor.data, bytes.size());
    return bytes;
  }
  const auto* values = static_cast<const float*>(tensor.data);
  for (size_t i = 0; i < bytes.size() / sizeof(BFloat16); ++i) {
    const BFloat16 rounded = ToBFloat16(values[i]);
    std::memcpy(bytes.data() + i * sizeof(rounded), &rounded, sizeof(rounded));
  }
  return bytes;
}

absl::Status Close(std::ofstream& file, const std::string& path) {
  file.close();
  return file ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

absl::Status WriteSafetensors(const std::map<std::string, HostTensor>& tensors, HostDType stored,
                              const std::string& path) {
  nlohmann::json header;
  size_t end = 0;
  const auto dtype_of = [stored](const std::string& name, const HostTensor& tensor) {
    const bool matrix = tensor.shape.size() == 2 && absl::EndsWith(name, ".weight");
    return matrix ? stored : HostDType::kF32;
  };
  for (const auto& [name, tensor] : tensors) {
    const HostDType dtype = dtype_of(name, tensor);
    const std::string bytes = BytesOf(tensor, dtype);
    header[name] = {{"dtype", std::string(DTypeName(dtype))},
                    {"shape", tensor.shape},
                    {"data_offsets", {end, end + bytes.size()}}};
    const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
    header["__metadata__"]["crc32." + name] = absl::StrFormat("%08x", sum);
    end += bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // so that tensors are aligned, as writers do
  std::ofstream file(path, std::ios::binary);
  for (size_t i = 0; i < 8; ++i) file.put(static_cast<char>(text.size() >> (8 * i) & 0xff));
  file << text;
  for (const auto& [name, tensor] : tensors) file << BytesOf(tensor, dtype_of(name, tensor));
  return Close(file, path);
}

}  // namespace

absl::Status StoreRandom(const TransformerConfig& config, HostDType stored,
                         const std::string& dir) {
  const std::string text = ConfigJson(config).dump();
  absl::StatusOr<Config> parsed = Config::Parse(text, "preset");
  if (!parsed.ok()) return parsed.status();
  absl::StatusOr<std::unique_ptr<Device>> device = MakeDevice("cpu");
  if (!device.ok()) return device.status();
  LoadOptions options;
  options.device = *std::move(device);
  Recorder recorder;
  const auto model = BuildModel(*parsed, recorder, nullptr, options);
  if (!model.ok()) return model.status();
  const std::string config_path = absl::StrCat(dir, "/config.json");
  std::ofstream config_file(config_path);
  config_file << text;
  if (absl::Status s = Close(config_file, config_path); !s.ok()) return s;
  return WriteSafetensors(recorder.tensors(), stored, absl::StrCat(dir, "/model.safetensors"));
}

}  // namespace tvq::bench
