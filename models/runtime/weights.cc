#include "models/runtime/weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/quantize.h"
#include "models/runtime/digest.h"
#include "models/runtime/json.h"
#include "models/runtime/quoted.h"
#include "models/runtime/read_file.h"
#include "models/runtime/safetensors.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr int64_t kLargestIndexBytes = 64 << 20;

// Tensors of one or several mapped files.
class FileWeights : public WeightSource {
 public:
  // `origin` names the file or index in messages.
  explicit FileWeights(std::string origin) : origin_(std::move(origin)) {}

  void AddWholeFile(std::unique_ptr<SafetensorsFile> file) {
    for (const auto& [name, tensor] : file->tensors()) tensors_[name] = {&tensor, file.get()};
    files_.push_back(std::move(file));
  }

  absl::Status AddNamed(const std::string& name, const SafetensorsFile& file) {
    const HostTensor* tensor = file.Find(name);
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(origin_, " says that tensor ", Quoted(name),
                                                     " is in ", file.path(), ", but it is not"));
    }
    tensors_[name] = {tensor, &file};
    return absl::OkStatus();
  }

  void Keep(std::unique_ptr<SafetensorsFile> file) { files_.push_back(std::move(file)); }

  absl::StatusOr<HostTensor> Get(std::string_view name, std::span<const int64_t> shape) override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) {
      return absl::NotFoundError(absl::StrCat(origin_, " has no tensor ", Quoted(name),
                                              "; it must be there, of shape ", ShapeString(shape)));
    }
    const auto& [tensor, file] = found->second;
    if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
      return absl::InvalidArgumentError(absl::StrCat(file->path(), ": tensor ", Quoted(name),
                                                     " has shape ", ShapeString(tensor->shape),
                                                     "; it must be ", ShapeString(shape)));
    }
    if (absl::Status intact = file->CheckIntegrity(name); !intact.ok()) return intact;
    return *tensor;
  }

  bool Has(std::string_view name) const override { return tensors_.contains(name); }

  std::string Digest() const override {
    tvq::Digest digest;
    for (const auto& [name, entry] : tensors_) {
      const HostTensor& tensor = *entry.tensor;
      digest.Add(name).Add(DTypeName(tensor.dtype)).Add(ShapeString(tensor.shape));
      digest.Add({static_cast<const char*>(tensor.data), tensor.ByteSize()});
    }
    return digest.Hex();
  }

  std::string Where(std::string_view name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return {};
    const auto& [tensor, file] = found->second;
    return absl::StrCat(file->path(), ", from byte ", file->Offset(*tensor));
  }

 private:
  struct Entry {
    const HostTensor* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
  };

  std::string origin_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

absl::StatusOr<std::unique_ptr<WeightSource>> OpenSharded(const std::string& dir,
                                                          const std::string& index_path,
                                                          const std::string& index_text) {
  absl::StatusOr<json> index = ParseJsonObject(index_text, index_path, JsonLimits{});
  if (!index.ok()) return index.status();
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index_path, ": field \"weight_map\" must be an object of tensor: shard"));
  }

  auto weights = std::make_unique<FileWeights>(index_path);
  std::map<std::string, const SafetensorsFile*> shards;
  for (const auto& [tensor, shard] : map->items()) {
    const std::string field = absl::StrCat(index_path, ": shard of tensor ", Quoted(tensor));
    if (!shard.is_string()) return absl::InvalidArgumentError(absl::StrCat(field, " is no string"));
    const std::string& file_name = shard.get_ref<const std::string&>();
    const SafetensorsFile*& file = shards[file_name];
    if (file == nullptr) {
      absl::Status plain = CheckPlainFileName(field, file_name);
      if (!plain.ok()) return plain;
      absl::StatusOr<std::unique_ptr<SafetensorsFile>> opened =
          SafetensorsFile::Open(absl::StrCat(dir, "/", file_name));
      if (!opened.ok()) return opened.status();
      file = opened->get();
      weights->Keep(*std::move(opened));
    }
    absl::Status added = weights->AddNamed(tensor, *file);
    if (!added.ok()) return added;
  }
  return weights;
}

template <typename T>
T LoadElement(const std::byte* data, size_t index) {
  T value;
  std::memcpy(&value, data + index * sizeof(T), sizeof(T));
  return value;
}

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {  // zero and subnormals: mantissa * 2^-24
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide_exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | (wide_exponent << 23) | (mantissa << 13));
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& dir) {
  const std::string single_path = absl::StrCat(dir, "/model.safetensors");
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> single = SafetensorsFile::Open(single_path);
  if (single.ok()) {
    auto weights = std::make_unique<FileWeights>(single_path);
    weights->AddWholeFile(*std::move(single));
    return weights;
  }
  if (!absl::IsNotFound(single.status())) return single.status();

  const std::string index_path = absl::StrCat(single_path, ".index.json");
  absl::StatusOr<std::string> index = ReadFile(index_path, kLargestIndexBytes);
  if (absl::IsNotFound(index.status())) {
    return absl::NotFoundError(
        absl::StrCat(dir, " has neither model.safetensors nor model.safetensors.index.json"));
  }
  if (!index.ok()) return index.status();
  return OpenSharded(dir, index_path, *index);
}

absl::StatusOr<std::vector<float>> ToFloat32(const HostTensor& tensor) {
  std::vector<float> result(static_cast<size_t>(tensor.ElementCount()));
  const auto* data = static_cast<const std::byte*>(tensor.data);
  switch (tensor.dtype) {
    case HostDType::kF32:
      if (!result.empty()) std::memcpy(result.data(), data, result.size() * sizeof(float));
      return result;
    case HostDType::kBF16:
      for (size_t i = 0; i < result.size(); ++i) {
        const uint32_t bits = LoadElement<uint16_t>(data, i);
        result[i] = std::bit_cast<float>(bits << 16);
      }
      return result;
    case HostDType::kF16:
      for (size_t i = 0; i < result.size(); ++i) {
        result[i] = HalfToFloat(LoadElement<uint16_t>(data, i));
      }
      return result;
    case HostDType::kF64:
      for (size_t i = 0; i < result.size(); ++i) {
        result[i] = static_cast<float>(LoadElement<double>(data, i));
      }
      return result;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "dtype is ", std::string(DTypeName(tensor.dtype)), "; it must be F32, BF16, F16 or F64"));
  }
}

absl::Status CheckFinite(std::string_view name, std::span<const float> values) {
  // All at once, which vector instructions do; then who it is.
  if (std::isfinite(LargestMagnitude(values))) return absl::OkStatus();
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i])) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", Quoted(name), " holds ", values[i],
                                                     " at index ", i,
                                                     "; every value must be finite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
