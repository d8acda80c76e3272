#include "models/runtime/weights.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "base/quoted.h"
#include "base/read_file.h"
#include "kernels/numbers/quantize.h"
#include "models/runtime/digest.h"
#include "models/runtime/safetensors.h"

namespace tvq {
namespace {

using nlohmann::json;

constexpr int64_t kLargestIndexBytes = 64 << 20;

// Asks the system to read files from disk ahead of the thread that goes through their tensors.
class Lookahead {
 public:
  // Call before a tensor is read. A request costs some time for each page, so a new one is made
  // only when less than half of the last one still lies ahead.
  void At(const SafetensorsFile& file, const HostTensor& tensor) {
    const std::ptrdiff_t begin = file.Offset(tensor);
    const auto end = begin + static_cast<std::ptrdiff_t>(tensor.ByteSize());
    if (&file == file_ && begin >= begin_ && end + kAhead / 2 <= end_) return;
    file_ = &file;
    begin_ = begin;
    end_ = end + kAhead;
    file.ReadAhead(begin_, end_ - begin_);
  }

 private:
  static constexpr std::ptrdiff_t kAhead = 64 << 20;

  const SafetensorsFile* file_ = nullptr;
  std::ptrdiff_t begin_ = 0;
  std::ptrdiff_t end_ = 0;
};

// Tensors of one or several mapped files.
class FileWeights : public WeightSource {
 public:
  // `origin` names the file or index in messages.
  FileWeights(std::string origin, HostTasks tasks)
      : origin_(std::move(origin)), tasks_(std::move(tasks)) {}

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
    const HostTensor* tensor = found->second.tensor;
    const SafetensorsFile* file = found->second.file;
    if (!std::equal(shape.begin(), shape.end(), tensor->shape.begin(), tensor->shape.end())) {
      return absl::InvalidArgumentError(absl::StrCat(file->path(), ": tensor ", Quoted(name),
                                                     " has shape ", ShapeString(tensor->shape),
                                                     "; it must be ", ShapeString(shape)));
    }
    if (absl::Status intact = file->CheckIntegrity(name, tasks_); !intact.ok()) return intact;
    std::atomic_ref(found->second.read).store(true, std::memory_order_relaxed);
    return *tensor;
  }

  bool Has(std::string_view name) const override { return tensors_.contains(name); }

  std::string Digest() const override {
    tvq::Digest digest;
    Lookahead lookahead;
    for (const auto& [name, entry] : tensors_) {
      const HostTensor& tensor = *entry.tensor;
      digest.Add(name).Add(DTypeName(tensor.dtype)).Add(ShapeString(tensor.shape));
      lookahead.At(*entry.file, tensor);
      digest.Add({static_cast<const char*>(tensor.data), tensor.ByteSize()});
    }
    return digest.Hex();
  }

  std::vector<std::string> Unread() const override {
    std::vector<std::string> names;
    for (const auto& [name, entry] : tensors_) {
      if (!entry.read) names.push_back(name);
    }
    return names;
  }

  std::string Where(std::string_view name) const override {
    const auto found = tensors_.find(name);
    if (found == tensors_.end()) return {};
    const Entry& entry = found->second;
    return absl::StrCat(entry.file->path(), ", from byte ", entry.file->Offset(*entry.tensor));
  }

 private:
  struct Entry {
    const HostTensor* tensor = nullptr;
    const SafetensorsFile* file = nullptr;
    bool read = false;  // set by several threads
  };

  const std::string origin_;
  const HostTasks tasks_;
  std::vector<std::unique_ptr<SafetensorsFile>> files_;
  std::map<std::string, Entry, std::less<>> tensors_;
};

absl::StatusOr<std::unique_ptr<WeightSource>> OpenSharded(const std::string& dir,
                                                          const std::string& index_path,
                                                          const std::string& index_text,
                                                          HostTasks tasks) {
  absl::StatusOr<json> index = ParseJsonObject(index_text, index_path, JsonLimits{});
  if (!index.ok()) return index.status();
  const auto map = index->find("weight_map");
  if (map == index->end() || !map->is_object()) {
    return absl::InvalidArgumentError(
        absl::StrCat(index_path, ": field \"weight_map\" must be an object of tensor: shard"));
  }

  auto weights = std::make_unique<FileWeights>(index_path, std::move(tasks));
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

float HalfToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t bits = static_cast<uint32_t>(half & 0x7fffu) << 13;
  // The exponent of a float32 is 112 higher: the product is exact, for subnormals too. Infinity and
  // NaN have the highest exponent and are treated apart.
  const float finite = std::bit_cast<float>(bits) * 0x1p112F;
  const bool special = (half & 0x7c00u) == 0x7c00u;
  return std::bit_cast<float>(sign |
                              (special ? bits | 0x7f800000u : std::bit_cast<uint32_t>(finite)));
}
float DoubleToFloat(double value) { return static_cast<float>(value); }

template <typename T, float (*kConvert)(T)>
void ReadAs(const void* data, int64_t first, int64_t count, float* to) {
  const auto* from = static_cast<const std::byte*>(data) + first * static_cast<int64_t>(sizeof(T));
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
    to[i] = kConvert(value);
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<WeightSource>> OpenWeights(const std::string& dir, HostTasks tasks) {
  const std::string single_path = absl::StrCat(dir, "/model.safetensors");
  absl::StatusOr<std::unique_ptr<SafetensorsFile>> single = SafetensorsFile::Open(single_path);
  if (single.ok()) {
    auto weights = std::make_unique<FileWeights>(single_path, std::move(tasks));
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
  return OpenSharded(dir, index_path, *index, std::move(tasks));
}

absl::StatusOr<HostMatrix> AsRow(const HostTensor& tensor) {
  HostMatrix row{.data = tensor.data, .out = 1, .in = tensor.ElementCount()};
  switch (tensor.dtype) {
    case HostDType::kF32:
      return row;
    case HostDType::kBF16:
      row.dtype = DType::kBFloat16;
      return row;
    case HostDType::kF16:
      row.reader = ReadAs<uint16_t, HalfToFloat>;
      return row;
    case HostDType::kF64:
      row.reader = ReadAs<double, DoubleToFloat>;
      return row;
    default:
      return absl::InvalidArgumentError(absl::StrCat(
          "dtype is ", std::string(DTypeName(tensor.dtype)), "; it must be F32, BF16, F16 or F64"));
  }
}

absl::StatusOr<std::vector<float>> ToFloat32(const HostTensor& tensor) {
  const absl::StatusOr<HostMatrix> row = AsRow(tensor);
  if (!row.ok()) return row.status();
  std::vector<float> values(static_cast<size_t>(row->in));
  if (!values.empty()) ReadValues(*row, 0, 0, row->in, values.data());
  return values;
}

absl::Status CheckFinite(std::string_view name, std::span<const float> values) {
  // First all values at once, by vector instructions; only on failure a search for the wrong one.
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
