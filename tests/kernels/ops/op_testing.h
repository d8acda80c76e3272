// What the conformance tests of the ops share: every op's test body runs once per instruction set
// and dtype and compares with the reference backend.
#ifndef TVQ_TESTS_KERNELS_OPS_OP_TESTING_H_
#define TVQ_TESTS_KERNELS_OPS_OP_TESTING_H_

#include <memory>
#include <ostream>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"

namespace tvq {

struct OpCase {
  std::string isa;
  DType dtype;
};

inline void PrintTo(const OpCase& c, std::ostream* out) { *out << c.isa << " " << Name(c.dtype); }

inline std::vector<OpCase> AllOpCases() {
  std::vector<OpCase> cases;
  for (const std::string& isa : AvailableIsas()) {
    cases.push_back({isa, DType::kFloat32});
    cases.push_back({isa, DType::kBFloat16});
  }
  return cases;
}

inline std::string OpCaseName(const testing::TestParamInfo<OpCase>& info) {
  std::string name = info.param.isa + "_" + Name(info.param.dtype);
  std::erase(name, '-');
  return name;
}

inline std::string IsaName(const testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::erase(name, '-');
  return name;
}

// Normal numbers, the same for the same seed.
inline std::vector<float> RandomFloats(int64_t count, uint32_t seed, float scale = 1) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(engine);
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

inline std::unique_ptr<Device> MakeTestDevice(std::string_view name, std::string_view isa = "",
                                              int threads = 2) {
  auto device = MakeDevice(name, threads, isa);
  EXPECT_TRUE(device.ok()) << device.status().ToString();
  return *std::move(device);
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

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_OP_TESTING_H_
