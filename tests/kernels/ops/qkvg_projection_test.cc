#include "kernels/ops/qkvg_projection.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "gmock/gmock.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/ops/norm_rows.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

struct Shape {
  int64_t rows, width, heads, kv_heads, key, value;
  Norm norm = Norm::kRms;
  bool plain_heads = false;
  bool biased = true;  // unless heads are plain
  Activation value_activation = Activation::kSilu;
  bool gated = true;
  int64_t gates() const { return gated ? heads : 0; }
  int64_t outputs() const { return (heads + kv_heads) * key + (kv_heads + gates()) * value; }
};

// Memory of one call's arguments.
struct Call {
  Call(const Shape& s, uint32_t seed)
      : shape(s),
        x(RandomFloats(s.rows * s.width, seed, 2)),
        gain(RandomFloats(s.width, seed + 1)),
        bias(RandomFloats(s.width, seed + 2, 0.1F)),
        w(RandomFloats(s.outputs() * s.width, seed + 3, 0.1F)),
        bias_u(RandomFloats(s.heads * s.key, seed + 4)),
        bias_w(RandomFloats(s.heads * s.key, seed + 5)),
        q_u(static_cast<size_t>(s.rows * s.heads * s.key)),
        q_w(q_u),
        k(static_cast<size_t>(s.rows * s.kv_heads * s.key)),
        v(static_cast<size_t>(s.rows * s.kv_heads * s.value)),
        g(static_cast<size_t>(s.rows * s.gates() * s.value)) {}

  // Rows [first, first + rows) on `device`, in each call the same one, like the dtype.
  absl::Status Run(Device& device, DType dtype, int64_t first, int64_t rows) {
    const Shape& s = shape;
    const HostMatrix matrix{w.data(), s.outputs(), s.width};
    if (!packed) packed = PackLinear(device, {&matrix, 1}, dtype).value();
    const std::span<const float> rows_of_x(x.data() + first * s.width,
                                           static_cast<size_t>(rows * s.width));
    const DeviceArray<float> x_in(device, rows_of_x), gain_in(device, gain), bias_in(device, bias),
        u_in(device, bias_u), w_in(device, bias_w);
    Part out[] = {{device, q_u, first, rows, s.heads, s.key},
                  {device, q_w, first, rows, s.heads, s.key},
                  {device, k, first, rows, s.kv_heads, s.key},
                  {device, v, first, rows, s.kv_heads, s.value},
                  {device, g, first, rows, s.gates(), s.value}};
    QkvgProjectionArgs args{.norm = s.norm,
                            .plain_heads = s.plain_heads,
                            .value_activation = s.value_activation,
                            .x = {x_in.data(), {rows, s.width}},
                            .gain = {gain_in.data(), {s.width}},
                            .bias = {bias_in.data(), {s.width}},
                            .weight = &*packed,
                            .q_u = out[0].View(),
                            .k = out[2].View(),
                            .v = out[3].View()};
    if (s.biased && !s.plain_heads) {
      args.u = {u_in.data(), {s.heads, s.key}};
      args.w = {w_in.data(), {s.heads, s.key}};
      args.q_w = out[1].View();
    }
    if (s.gated) args.g = out[4].View();
    const absl::Status status = QkvgProjection(device, args);
    for (Part& part : out) part.Store();
    return status;
  }

  // Rows [first, first + rows) of one output [all rows, heads, width], on a device.
  struct Part {
    Part(Device& device, std::vector<float>& all, int64_t first, int64_t rows_, int64_t heads_,
         int64_t width_)
        : values(all.data() + first * heads_ * width_,
                 static_cast<size_t>(rows_ * heads_ * width_)),
          memory(device, values),
          rows(rows_),
          heads(heads_),
          width(width_) {}
    Tensor<float, 3> View() const { return {memory.data(), {rows, heads, width}}; }
    void Store() {
      const std::vector<float> read = memory.Read();
      std::copy(read.begin(), read.end(), values.begin());
    }

    std::span<float> values;
    DeviceArray<float> memory;
    int64_t rows, heads, width;
  };

  Shape shape;
  std::optional<LinearWeight> packed;
  std::vector<float> x, gain, bias, w, bias_u, bias_w, q_u, q_w, k, v, g;
};

class QkvgProjectionTest : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = MakeTestDevice(GetParam().device);
  }
  void Compare(const Shape& shape);
  void NormRow(const Call& call, int64_t row, std::vector<float>& normed,
               std::vector<double>& bound);
  // Value and error bound of x~ W for all outputs of one row.
  void ProjectionBound(const Call& call, int64_t row, std::vector<double>& value,
                       std::vector<double>& bound);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
};

// x~ and by how much it is off: gamma_(D+8) of its terms, and what the mean's error adds
// (norm_rows_test).
void QkvgProjectionTest::NormRow(const Call& call, int64_t row, std::vector<float>& normed,
                                 std::vector<double>& bound) {
  const int64_t width = call.shape.width;
  const float* from = call.x.data() + row * width;
  const Matrix<const float> x{from, {1, width}};
  const Matrix<float> out{normed.data(), {1, width}};
  const Vector<const float> gain{call.gain.data(), {width}}, bias{call.bias.data(), {width}};
  double shift = 0;
  ASSERT_TRUE(NormRows(*reference_, {call.shape.norm, x, gain, bias, out}).ok());
  if (call.shape.norm == Norm::kLayer) {
    double size = 0, mean = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) {
      size += std::abs(from[i]) / static_cast<double>(width);
      mean += from[i] / static_cast<double>(width);
    }
    for (int64_t i = 0; i < width; ++i) squares += (from[i] - mean) * (from[i] - mean);
    const double variance = squares / static_cast<double>(width) + kLayerNormEpsilon;
    shift = 2 * Gamma(width + 1) * size / std::sqrt(variance);
  }
  for (size_t i = 0; i < normed.size(); ++i) {
    bound[i] = Gamma(width + 8) * (std::abs(normed[i]) + 2 * std::abs(call.bias[i])) +
               shift * std::abs(call.gain[i]);
  }
}

// x~ is off as NormRow says. Rounding it to bfloat16 moves it by a
// whole step where the two candidates lie on different sides of a midpoint, and not at all
// elsewhere; what it does for an integer weight, the reference does not do. The products with W
// then add gamma_(SumRoundings + 6) of the sum of their absolute values (linear_test).
void QkvgProjectionTest::ProjectionBound(const Call& call, int64_t row, std::vector<double>& value,
                                         std::vector<double>& bound) {
  const int64_t width = call.shape.width;
  const DType dtype = GetParam().dtype;
  const auto round = [dtype](double v) -> double {
    return dtype == DType::kBFloat16 ? ToFloat(ToBFloat16(static_cast<float>(v))) : v;
  };
  const std::vector<float> w = WeightsAs(dtype, call.w, width);
  std::vector<float> normed(static_cast<size_t>(width));
  std::vector<double> norm_bound(normed.size());
  ASSERT_NO_FATAL_FAILURE(NormRow(call, row, normed, norm_bound));
  float largest = 0;
  for (size_t i = 0; i < normed.size(); ++i) {
    largest = std::max(largest, std::abs(normed[i]) + static_cast<float>(norm_bound[i]));
  }
  // By how much the device rounds a value where the reference does not.
  const auto rounding = [&](double v) -> double {
    if (!IsInteger(dtype)) return 0;
    if (GetParam().device.name == "cpu") return FixedPointStep({&largest, 1}) / 2;
    return std::abs(v) * 0x1p-8;
  };
  for (int64_t o = 0; o < call.shape.outputs(); ++o) {
    double sum = 0;
    double terms = 0;
    double moved = 0;
    for (int64_t i = 0; i < width; ++i) {
      const auto at = static_cast<size_t>(i);
      const double weight = w[static_cast<size_t>(o * width + i)];
      const double off = norm_bound[at];
      sum += weight * round(normed[at]);
      terms += std::abs(weight * round(normed[at]));
      moved += std::abs(weight) * (round(normed[at] + off) - round(normed[at] - off) +
                                   rounding(std::abs(normed[at]) + off));
    }
    value[static_cast<size_t>(o)] = sum;
    bound[static_cast<size_t>(o)] = Gamma(SumRoundings(GetParam(), width) + 6) * terms + moved;
  }
}

void QkvgProjectionTest::Compare(const Shape& shape) {
  Call fast(shape, 1);
  Call slow(shape, 1);
  ASSERT_TRUE(fast.Run(*device_, GetParam().dtype, 0, shape.rows).ok());
  ASSERT_TRUE(slow.Run(*reference_, GetParam().dtype, 0, shape.rows).ok());
  const auto outputs = static_cast<size_t>(shape.outputs());
  std::vector<double> value(outputs);
  std::vector<double> bound(outputs);
  for (int64_t row = 0; row < shape.rows; ++row) {
    ASSERT_NO_FATAL_FAILURE(ProjectionBound(fast, row, value, bound));
    // A head's norm: |d n| <= t / rms * (|d a| + |a| rms(d a) / rms), to first order (1.01), and
    // gamma_(K+8) for its own roundings. Plain heads are the projection.
    const int64_t key_heads = shape.heads + shape.kv_heads;
    for (int64_t c = 0; shape.plain_heads && c < key_heads * shape.key; ++c) {
      const auto at = static_cast<size_t>(c);
      const int64_t queries = shape.heads * shape.key, keys = shape.kv_heads * shape.key;
      const auto q = static_cast<size_t>(row * queries) + at;
      const auto k = static_cast<size_t>(row * keys) + at - static_cast<size_t>(queries);
      ASSERT_NEAR(c < queries ? fast.q_u[q] : fast.k[k], c < queries ? slow.q_u[q] : slow.k[k],
                  bound[at] + Gamma(2) * std::abs(value[at]));
    }
    for (int64_t h = 0; !shape.plain_heads && h < key_heads; ++h) {
      double squares = 0;
      double square_bounds = 0;
      for (int64_t c = h * shape.key; c < (h + 1) * shape.key; ++c) {
        const auto at = static_cast<size_t>(c);
        squares += value[at] * value[at] / static_cast<double>(shape.key);
        square_bounds += bound[at] * bound[at] / static_cast<double>(shape.key);
      }
      const double rms = std::sqrt(squares + kRmsNormEpsilon);
      const double t = std::pow(static_cast<double>(shape.key), -0.25);
      for (int64_t c = 0; c < shape.key; ++c) {
        const auto at = static_cast<size_t>(h * shape.key + c);
        const double n = std::abs(value[at]) / rms * t;
        const double off =
            1.01 * (t * bound[at] + n * std::sqrt(square_bounds)) / rms + Gamma(shape.key + 8) * n;
        if (h < shape.heads) {
          const auto q = static_cast<size_t>(row * shape.heads * shape.key) + at;
          ASSERT_NEAR(fast.q_u[q], slow.q_u[q], off + Gamma(2) * std::abs(slow.q_u[q]));
          ASSERT_NEAR(fast.q_w[q], slow.q_w[q], off + Gamma(2) * std::abs(slow.q_w[q]));
        } else {
          const auto k = static_cast<size_t>(row * shape.kv_heads * shape.key) + at -
                         static_cast<size_t>(shape.heads * shape.key);
          ASSERT_NEAR(fast.k[k], slow.k[k], off + Gamma(2) * std::abs(slow.k[k]));
        }
      }
    }
    const auto check_silu = [&](const std::vector<float>& a, const std::vector<float>& b,
                                int64_t first, int64_t count) {
      for (int64_t c = 0; c < count; ++c) {
        const auto at = static_cast<size_t>(row * count + c);
        ASSERT_NEAR(a[at], b[at],
                    1.1 * bound[static_cast<size_t>(first + c)] + 4e-7 * std::abs(b[at]));
      }
    };
    const int64_t first_value = key_heads * shape.key;
    check_silu(fast.v, slow.v, first_value, shape.kv_heads * shape.value);
    check_silu(fast.g, slow.g, first_value + shape.kv_heads * shape.value,
               shape.gates() * shape.value);
  }
}

TEST_P(QkvgProjectionTest, AgreesWithTheReference) {
  Compare({.rows = 0, .width = 8, .heads = 1, .kv_heads = 1, .key = 4, .value = 4});
  Compare({.rows = 1, .width = 96, .heads = 1, .kv_heads = 1, .key = 16, .value = 64});
  Compare({.rows = 3, .width = 33, .heads = 3, .kv_heads = 1, .key = 7, .value = 11});
  Compare({.rows = 7, .width = 64, .heads = 4, .kv_heads = 2, .key = 24, .value = 20});
  Compare({.rows = 65, .width = 50, .heads = 2, .kv_heads = 2, .key = 128, .value = 32});
  // CUDA: wide blocks, of which several share a head or one has parts of two; rows in parts.
  Compare({.rows = 9, .width = 36, .heads = 3, .kv_heads = 1, .key = 24, .value = 520});
  Compare({.rows = 2, .width = 2100, .heads = 1, .kv_heads = 1, .key = 20, .value = 9});
}

// Heads without biases or plain, and the standard block.
TEST_P(QkvgProjectionTest, OtherUnitsAgreeWithTheReference) {
  for (const Norm norm : {Norm::kRms, Norm::kLayer}) {
    for (const auto& [plain, biased] :
         {std::pair(false, true), std::pair(false, false), std::pair(true, false)}) {
      for (const bool gated : {false, true}) {
        Shape shape{.rows = 7, .width = 65, .heads = 3, .kv_heads = 1, .key = 7, .value = 11};
        shape.norm = norm;
        shape.plain_heads = plain;
        shape.biased = biased;
        shape.value_activation = gated ? Activation::kSilu : Activation::kNone;
        shape.gated = gated;
        Compare(shape);
      }
    }
  }
}

// However many rows share a call: CUDA's blocks norm few rows by themselves, and many in a kernel
// of its own.
TEST_P(QkvgProjectionTest, ARowsBitsDependOnThatRowAlone) {
  const Shape shapes[] = {
      {.rows = 40, .width = 37, .heads = 2, .kv_heads = 1, .key = 12, .value = 29},
      {.rows = 18,
       .width = 300,
       .heads = 3,
       .kv_heads = 3,
       .key = 7,
       .value = 5,
       .norm = Norm::kLayer},
      {.rows = 9, .width = 2100, .heads = 1, .kv_heads = 1, .key = 20, .value = 9},
      {.rows = 9, .width = 36, .heads = 3, .kv_heads = 1, .key = 24, .value = 520}};
  for (const Shape& shape : shapes) {
    Call all(shape, 3);
    ASSERT_TRUE(all.Run(*device_, GetParam().dtype, 0, shape.rows).ok());
    for (const int64_t together : {1, 2, 4, 8, 16}) {
      Call some(shape, 3);
      for (int64_t row = 0; row < shape.rows; row += together) {
        const int64_t rows = std::min(together, shape.rows - row);
        ASSERT_TRUE(some.Run(*device_, GetParam().dtype, row, rows).ok());
      }
      EXPECT_EQ(all.q_u, some.q_u) << together;
      EXPECT_EQ(all.q_w, some.q_w) << together;
      EXPECT_EQ(all.k, some.k) << together;
      EXPECT_EQ(all.v, some.v) << together;
      EXPECT_EQ(all.g, some.g) << together;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, QkvgProjectionTest, testing::ValuesIn(LinearOpCases()), kCaseName);

TEST(QkvgProjectionChecksTest, NameTheArgument) {
  const auto device = MakeDevice("cpu", 1).value();
  Call call({.rows = 2, .width = 8, .heads = 3, .kv_heads = 2, .key = 4, .value = 4}, 1);
  EXPECT_EQ(std::string(call.Run(*device, DType::kFloat32, 0, 2).message()),
            "QkvgProjection: q_u has 3 heads, expected a multiple of the 2 heads of k");
  const HostMatrix matrix{call.w.data(), 10, 8};
  const LinearWeight weight = PackLinear(*device, {&matrix, 1}, DType::kFloat32).value();
  EXPECT_EQ(std::string(QkvgProjection(*device, {.x = {call.x.data(), {2, 8}},
                                                 .gain = {call.gain.data(), {8}},
                                                 .bias = {call.bias.data(), {8}},
                                                 .weight = &weight,
                                                 .u = {call.bias_u.data(), {1, 4}},
                                                 .w = {call.bias_w.data(), {1, 4}},
                                                 .q_u = {call.q_u.data(), {2, 1, 4}},
                                                 .q_w = {call.q_w.data(), {2, 1, 4}},
                                                 .k = {call.k.data(), {2, 1, 4}},
                                                 .v = {call.v.data(), {2, 1, 2}},
                                                 .g = {call.g.data(), {2, 1, 2}}})
                            .message()),
            "QkvgProjection: weight is [10,8], expected [12,8] (rows of q, k, v and g)");
}

}  // namespace
}  // namespace tvq
