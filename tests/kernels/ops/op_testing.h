// What the conformance tests of the ops share: every op's test body runs once per instruction set
// and dtype and compares with the reference backend.
#ifndef TVQ_TESTS_KERNELS_OPS_OP_TESTING_H_
#define TVQ_TESTS_KERNELS_OPS_OP_TESTING_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/device/device.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/int4.h"
#include "kernels/ops/attention/head_scores.h"
#include "tests/kernels/test_devices.h"

namespace tvq {

// Of ops that CUDA lacks.
inline std::vector<DeviceCase> CpuDevices() {
  std::vector<DeviceCase> cases;
  for (const std::string& isa : AvailableIsas()) cases.push_back({"cpu", isa});
  return cases;
}

struct OpCase {
  DeviceCase device;
  DType dtype;
};

inline std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  for (const DeviceCase& device : AllDevices()) {
    cases.push_back({device, DType::kFloat32});
    cases.push_back({device, DType::kBFloat16});
  }
  return cases;
}

// Of ops with weights, which may be int8, too.
inline std::vector<OpCase> WeightOpCases() {
  std::vector<OpCase> cases = AllOpCases();
  for (const DeviceCase& device : LinearDevices()) cases.push_back({device, DType::kInt8});
  cases.push_back({kAmxStandIn, DType::kBFloat16});
  return cases;
}

// Of linears, which on the CPU may be int4, too.
inline std::vector<OpCase> LinearOpCases() {
  std::vector<OpCase> cases = WeightOpCases();
  for (const DeviceCase& device : CpuDevices()) cases.push_back({device, DType::kInt4});
  return cases;
}

inline bool IsInteger(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kInt4; }

inline std::string NameOf(const OpCase& c) { return NameOf(c.device) + "_" + Name(c.dtype); }
inline void PrintTo(const OpCase& c, std::ostream* out) { *out << NameOf(c); }
inline constexpr auto kCaseName = [](const auto& info) { return NameOf(info.param); };

// Memory of a device with a copy of `values`.
template <typename T>
class DeviceArray {
 public:
  DeviceArray(Device& device, std::span<const T> values) : device_(device), size_(values.size()) {
    absl::StatusOr<Buffer> buffer = device.Allocate(values.size_bytes());
    EXPECT_TRUE(buffer.ok()) << buffer.status().ToString();
    buffer_ = *std::move(buffer);
    EXPECT_TRUE(device.CopyFromHost(data(), values.data(), values.size_bytes()).ok());
  }
  DeviceArray(Device& device, const std::vector<T>& values)
      : DeviceArray(device, std::span<const T>(values)) {}

  T* data() const { return buffer_.as<T>(); }
  std::vector<T> Read() const {
    std::vector<T> values(size_);
    const absl::Status status = device_.CopyToHost(values.data(), data(), size_ * sizeof(T));
    EXPECT_TRUE(status.ok()) << status.ToString();
    return values;
  }

 private:
  Device& device_;
  size_t size_;
  Buffer buffer_;
};

// `keys` of a shape [heads, rows, width] as the device packs them.
inline HeadKeys PackKeys(Device& device, const std::vector<float>& keys,
                         const std::array<int64_t, 3>& shape) {
  HeadKeys packed;
  const absl::Status status = PackHeadKeys(device, {{keys.data(), shape}, &packed});
  EXPECT_TRUE(status.ok()) << status.ToString();
  return packed;
}

// Normal numbers, the same for the same seed: Marsaglia's polar method, and the numbers of
// libstdc++'s normal_distribution, which takes six times as long by clang: it divides two
// logarithms of long double for each uniform number.
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed, float scale = 1) {
  std::mt19937 engine(seed);
  const auto uniform = [&] { return 2 * std::min(float(engine()) * 0x1p-32F, 1 - 0x1p-24F) - 1; };
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); i += 2) {
    float x, y, square;
    do {
      x = uniform();
      y = uniform();
      square = x * x + y * y;
    } while (square > 1 || square == 0);
    const float factor = std::sqrt(-2 * std::log(square) / square);
    values[i] = y * factor * scale;
    if (i + 1 < values.size()) values[i + 1] = x * factor * scale;
  }
  return values;
}

// Indices below `limit`, the same for the same seed.
inline std::vector<int32_t> RandomIndices(int64_t count, int64_t limit, uint32_t seed) {
  std::mt19937 engine(seed);
  std::uniform_int_distribution<int32_t> index(0, static_cast<int32_t>(limit - 1));
  std::vector<int32_t> values(static_cast<size_t>(count));
  for (int32_t& value : values) value = index(engine);
  return values;
}

// A group of an int4 weight in the simplest words: of the scales that make the value of the largest
// magnitude -6.5, -6.75, ..., -9 the one with the least squared error (kernels/numbers/int4.h).
inline void RoundGroupToInt4(std::span<float> group) {
  float largest = 0;
  for (const float w : group) largest = std::abs(w) > std::abs(largest) ? w : largest;
  double least = std::numeric_limits<double>::infinity();
  std::vector<float> best(group.size());
  for (float t = 6.5F; t <= 9 && largest != 0; t += 0.25F) {
    const float scale = ToFloat(ToBFloat16(-largest / t));
    std::vector<float> rounded;
    double error = 0;
    for (const float w : group) {
      rounded.push_back(std::clamp(std::nearbyint(w * (1 / scale)), -8.0F, 7.0F) * scale);
      error += std::pow(static_cast<double>(w) - rounded.back(), 2);
    }
    if (error < least) best = rounded;
    least = std::min(least, error);
  }
  std::copy(best.begin(), best.end(), group.begin());
}

// What a weight [rows, width] of `dtype` holds. int8 in the simplest words: the largest of a row
// becomes 127.
inline std::vector<float> WeightsAs(DType dtype, std::vector<float> weights, int64_t width) {
  for (float& w : weights) {
    if (dtype == DType::kBFloat16) w = ToFloat(ToBFloat16(w));
  }
  for (size_t row = 0; dtype == DType::kInt4 && row < weights.size();
       row += static_cast<size_t>(width)) {
    for (int64_t i = 0; i < width; i += kInt4Group) {
      RoundGroupToInt4(std::span(weights).subspan(
          row + static_cast<size_t>(i), static_cast<size_t>(std::min(kInt4Group, width - i))));
    }
  }
  for (auto row = weights.begin(); dtype == DType::kInt8 && row != weights.end(); row += width) {
    float largest = 0;
    for (int64_t i = 0; i < width; ++i) largest = std::max(largest, std::abs(row[i]));
    const float scale = largest / 127;
    for (int64_t i = 0; i < width; ++i) row[i] = std::nearbyint(row[i] / scale) * scale;
  }
  return weights;
}

// Of the fixed-point numbers that the CPU makes of a row before an int8 or int4 weight (linear.h).
inline float FixedPointStep(std::span<const float> row) {
  float largest = 0;
  double step = 0x1p-124;
  for (const float x : row) largest = std::max(largest, std::abs(x));
  while (0x1p15 * step <= 1.004 * largest) step *= 2;
  return static_cast<float>(step);
}

// What a row of x is rounded to before it meets a weight of the case's dtype.
inline std::vector<float> RoundedRow(const OpCase& c, std::span<const float> row) {
  std::vector<float> rounded(row.begin(), row.end());
  if (IsInteger(c.dtype) && c.device.name == "cpu") {
    const float step = FixedPointStep(row);
    for (float& x : rounded)
      x = static_cast<float>(std::nearbyint(x / static_cast<double>(step)) * step);
  } else if (c.dtype != DType::kFloat32) {
    for (float& x : rounded) x = ToFloat(ToBFloat16(x));
  }
  return rounded;
}

// The same for rows of `width` values.
inline std::vector<float> RoundedRows(const OpCase& c, std::span<const float> rows, int64_t width) {
  std::vector<float> rounded;
  for (size_t at = 0; at < rows.size(); at += static_cast<size_t>(width)) {
    const std::vector<float> row = RoundedRow(c, rows.subspan(at, static_cast<size_t>(width)));
    rounded.insert(rounded.end(), row.begin(), row.end());
  }
  return rounded;
}

// Half of float32's distance between 1 and the next number: the error of one rounding.
inline constexpr double kRounding = 0x1p-24;

// Higham's gamma_n = n u / (1 - n u), u = 2^-24: n roundings of float32 in a row move a sum by at
// most gamma_n times the sum of the absolute values of its terms (Accuracy and Stability of
// Numerical Algorithms, section 3.1).
inline double Gamma(int64_t n) {
  const double nu = static_cast<double>(n) * 0x1p-24;
  return nu / (1 - nu);
}

// Roundings of a sum of `in` products with a weight of a case's dtype: one each. But a GPU's matrix
// instructions bring 16 products and the sum so far to the largest one's exponent, cut off what is
// below float32's last place there, and once more of the new sum, or do so by eights: up to 20
// errors, each of up to 2^-23 of all terms, two roundings. (Fasi, Higham, Mikaitis, Pranesh:
// Numerical behavior of NVIDIA tensor cores, 2021.) Rows are padded to whole pieces of 64. The
// CPU's sums with an int8 weight are exact; its upper part is rounded, and the whole once more.
// With an int4 weight a group's sum is exact, and rounded once with its scale and once where it is
// added.
inline int64_t SumRoundings(const OpCase& c, int64_t in) {
  if (c.device.name == "cpu" && c.dtype == DType::kInt8) return 2;
  if (c.device.name == "cpu" && c.dtype == DType::kInt4) return 1 + Int4Groups(in);
  if (c.device.name != "cuda" || c.dtype == DType::kFloat32) return in;
  const int64_t instructions = (in + 63) / 64 * 4;
  return 2 * (in + 4 * instructions);
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_OP_TESTING_H_
