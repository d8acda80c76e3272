#ifndef TVQ_MODELS_RUNTIME_HOST_TENSOR_H_
#define TVQ_MODELS_RUNTIME_HOST_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tvq {

// Element types a weight file may hold.
enum class HostDType {
  kF64,
  kF32,
  kF16,
  kBF16,
  kI64,
  kI32,
  kI16,
  kI8,
  kU64,
  kU32,
  kU16,
  kU8,
  kBool
};

// Bytes per element.
std::size_t ElementSize(HostDType dtype);

// The name safetensors uses: "F32", "BF16", "BOOL", ...
std::string_view DTypeName(HostDType dtype);
std::optional<HostDType> DTypeFromName(std::string_view name);

// A tensor in host memory, row-major, not owned. `data` lives as long as the file or source it came
// from; it may be unaligned for its element type, so read it with memcpy or ToFloat32.
struct HostTensor {
  const void* data = nullptr;
  HostDType dtype = HostDType::kF32;
  std::vector<int64_t> shape;

  // Product of the shape; 1 for a scalar.
  int64_t ElementCount() const;
  std::size_t ByteSize() const;
};

// "[3, 128]"; "[]" for a scalar.
std::string ShapeString(std::span<const int64_t> shape);

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_HOST_TENSOR_H_
