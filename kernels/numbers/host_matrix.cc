#include "kernels/numbers/host_matrix.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/int8.h"

namespace tvq {
namespace {

// Values are converted by way of float32 in pieces of this many, which stay in the L1 cache.
constexpr int64_t kPiece = 1024;

// Where value `first` of a row lies.
template <typename T>
const std::byte* At(const HostMatrix& matrix, int64_t row, int64_t first) {
  return static_cast<const std::byte*>(matrix.data) +
         (row * matrix.in + first) * static_cast<int64_t>(sizeof(T));
}

template <typename T>
void Copy(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, T* to) {
  std::memcpy(to, At<T>(matrix, row, first), static_cast<size_t>(count) * sizeof(T));
}

bool Holds(const HostMatrix& matrix, DType dtype) {
  return matrix.dtype == dtype && matrix.reader == nullptr;
}

// convert(floats, count, to) piece by piece.
template <typename T, typename Convert>
void ByWayOfFloats(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, T* to,
                   const Convert& convert) {
  float piece[kPiece];
  for (int64_t i = 0; i < count; i += kPiece) {
    const int64_t here = std::min(kPiece, count - i);
    ReadValues(matrix, row, first + i, here, piece);
    convert(piece, here, to + i);
  }
}

}  // namespace

void ReadValues(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, float* to) {
  if (matrix.reader != nullptr) {
    matrix.reader(matrix.data, row * matrix.in + first, count, to);
  } else if (matrix.dtype == DType::kFloat32) {
    Copy(matrix, row, first, count, to);
  } else if (matrix.dtype == DType::kBFloat16) {
    const std::byte* from = At<BFloat16>(matrix, row, first);
    for (int64_t i = 0; i < count; ++i) {
      BFloat16 value;
      std::memcpy(&value, from + i * static_cast<int64_t>(sizeof(value)), sizeof(value));
      to[i] = ToFloat(value);
    }
  } else {
    const auto* q = reinterpret_cast<const int8_t*>(At<int8_t>(matrix, row, first));
    const float scale = matrix.scales[row];
    for (int64_t i = 0; i < count; ++i) to[i] = scale * static_cast<float>(q[i]);
  }
}

void ReadValues(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, BFloat16* to) {
  if (Holds(matrix, DType::kBFloat16)) return Copy(matrix, row, first, count, to);
  ByWayOfFloats(matrix, row, first, count, to,
                [](const float* values, int64_t n, BFloat16* rounded) {
                  std::transform(values, values + n, rounded, ToBFloat16);
                });
}

void ReadValues(const HostMatrix& matrix, int64_t row, int64_t first, int64_t count, int8_t* to) {
  if (Holds(matrix, DType::kInt8)) return Copy(matrix, row, first, count, to);
  ByWayOfFloats(matrix, row, first, count, to, [&](const float* values, int64_t n, int8_t* q) {
    QuantizeToInt8({values, static_cast<size_t>(n)}, matrix.scales[row], q);
  });
}

}  // namespace tvq
