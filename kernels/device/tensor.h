// Non-owning, contiguous views of device memory. A view says what the memory holds; it does not say
// what owns the memory or on which device it lies.
#ifndef TVQ_KERNELS_DEVICE_TENSOR_H_
#define TVQ_KERNELS_DEVICE_TENSOR_H_

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>

namespace tvq {

// kInt8 and kInt4 are for weights alone. kInt8 has values from -127 to 127 and a float32 scale for
// each row (kernels/numbers/int8.h); kInt4 has values from -8 to 7 in groups
// (kernels/numbers/int4.h).
enum class DType : uint8_t { kFloat32, kBFloat16, kInt8, kInt4 };

// Bytes of an element. Not for kInt4, whose elements take half a byte.
constexpr size_t SizeOf(DType dtype) {
  return dtype == DType::kFloat32 ? 4 : dtype == DType::kBFloat16 ? 2 : 1;
}
constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      break;
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kInt8:
      return "int8";
    case DType::kInt4:
      return "int4";
  }
  return "float32";
}

// Brain float: the upper half of a float32.
struct BFloat16 {
  uint16_t bits;
};

// A row-major view of R dimensions, the last one contiguous, no gaps.
template <typename T, int R>
struct Tensor {
  T* data = nullptr;
  std::array<int64_t, R> shape{};

  int64_t dim(int i) const { return shape[static_cast<size_t>(i)]; }
  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : shape) n *= d;
    return n;
  }
  bool empty() const { return data == nullptr; }

  // Pointer to the sub-tensor at index i of the first dimension.
  T* row(int64_t i) const {
    int64_t stride = 1;
    for (int d = 1; d < R; ++d) stride *= dim(d);
    return data + i * stride;
  }

  // A view that can be written converts to one that can only be read.
  template <std::same_as<const T> U>
  // NOLINTNEXTLINE(google-explicit-constructor): see above.
  operator Tensor<U, R>() const {
    return {data, shape};
  }
};

template <typename T>
using Vector = Tensor<T, 1>;
template <typename T>
using Matrix = Tensor<T, 2>;

}  // namespace tvq

#endif  // TVQ_KERNELS_DEVICE_TENSOR_H_
