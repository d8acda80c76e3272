#include "kernels/ops/linear.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

#include "gmock/gmock.h"
#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/numbers/bfloat16.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

using testing::HasSubstr;

struct Options {
  bool bias = false;
  float scale = 1;
  Activation activation = Activation::kNone;
  bool accumulate = false;
  int64_t chunk_rows = 0;
};

class LinearTest : public testing::TestWithParam<OpCase> {
 protected:
  void SetUp() override {
    TVQ_SKIP_WITHOUT_DEVICE(GetParam().device);
    device_ = MakeTestDevice(GetParam().device);
  }

  LinearWeight Pack(Device& device, const std::vector<float>& w, int64_t out, int64_t in) {
    const HostMatrix matrix{w.data(), out, in};
    return PackLinear(device, {&matrix, 1}, GetParam().dtype).value();
  }

  // y after Linear of x [rows, in]; y0 is what is there before.
  static std::vector<float> Run(Device& device, const LinearWeight& weight,
                                std::span<const float> x, const std::vector<float>& bias,
                                const std::vector<float>& y0, const Options& options) {
    const auto rows = static_cast<int64_t>(x.size()) / weight.in;
    const DeviceArray<float> in(device, x), b(device, bias), y(device, y0);
    LinearArgs args{.x = {in.data(), {rows, weight.in}},
                    .weight = &weight,
                    .scale = options.scale,
                    .activation = options.activation,
                    .accumulate = options.accumulate,
                    .y = {y.data(), {rows, weight.out}},
                    .chunk_rows = options.chunk_rows};
    if (options.bias) args.bias = {b.data(), {weight.out}};
    const absl::Status status = Linear(device, args);
    EXPECT_TRUE(status.ok()) << status.ToString();
    return y.Read();
  }

  std::vector<uint8_t> Bytes(const LinearWeight& weight) {
    std::vector<uint8_t> host(weight.data.bytes());
    EXPECT_TRUE(device_->CopyToHost(host.data(), weight.data.data(), host.size()).ok());
    return host;
  }

  void Compare(int64_t rows, int64_t in, int64_t out, const Options& options);

  std::unique_ptr<Device> device_;
  std::unique_ptr<Device> reference_ = MakeDevice("reference").value();
};

// The reference gets x as the device rounds it (it rounds none for an integer weight itself).
// Products of bfloat16, and of bfloat16 and int8, are exact in float32, so that with any dtype only
// the roundings of the sum are left: at most those of SumRoundings and one each for adding the
// partial sums and the bias, the two scales, and their conversion. An int8 weight's scale * q is
// rounded here, not in the kernel: one more. An int4 weight's is exact in float32, and the kernel
// rounds once a group. |silu'| < 1.1, |gelu'| < 1.13, |tanh'| and |sigmoid'|
// are at most 1, the square's derivative is at most twice the sum of the terms' magnitudes, and the
// functions add 4e-7 of their results; the cube and its sum in gelu are up to six more roundings of
// what it is taken of. VDPBF16PS drops subnormal products.
void LinearTest::Compare(int64_t rows, int64_t in, int64_t out, const Options& options) {
  const std::vector<float> x = RandomFloats(rows * in, 1);
  const std::vector<float> w = RandomFloats(out * in, 2);
  const std::vector<float> bias = RandomFloats(out, 3);
  const std::vector<float> y0 = RandomFloats(rows * out, 4);
  const std::vector<float> used = WeightsAs(GetParam().dtype, w, in);
  const std::vector<float> rounded = RoundedRows(GetParam(), x, in);
  const std::vector<float> y = Run(*device_, Pack(*device_, w, out, in), x, bias, y0, options);
  const std::vector<float> expected =
      Run(*reference_, Pack(*reference_, w, out, in), rounded, bias, y0, options);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t o = 0; o < out; ++o) {
      double terms = options.bias ? std::abs(bias[static_cast<size_t>(o)]) : 0;
      for (int64_t i = 0; i < in; ++i) {
        terms += std::abs(rounded[static_cast<size_t>(n * in + i)] *
                          used[static_cast<size_t>(o * in + i)]);
      }
      const auto at = static_cast<size_t>(n * out + o);
      const double old = options.accumulate ? std::abs(y0[at]) : 0;
      const double slope = options.activation == Activation::kSquaredRelu
                               ? 2 * terms * std::abs(options.scale)
                               : 1.13;
      const double bound =
          slope * Gamma(SumRoundings(GetParam(), in) + 12) * terms * std::abs(options.scale) +
          4e-7 * (std::abs(expected[at]) + old) + 1e-36;
      ASSERT_NEAR(y[at], expected[at], bound)
          << rows << " rows, in " << in << ", out " << out << ", row " << n << ", output " << o;
    }
  }
}

TEST_P(LinearTest, AgreesWithTheReference) {
  for (int64_t in : {1, 2, 3, 5, 7, 33, 128, 257}) {
    for (int64_t out : {1, 15, 16, 33, 70}) {
      for (int64_t rows : {0, 1, 2, 3, 4, 5, 6, 7, 13}) Compare(rows, in, out, {});
    }
  }
  Compare(1, 768, 130, {});
  // So long that CUDA blocks share an output, several of them.
  Compare(9, 2100, 20, {.bias = true});
  // So many that a CUDA block computes more of them.
  for (int64_t rows : {1, 9}) Compare(rows, 72, 2100, {});
  Compare(300, 96, 40, {});
  for (int64_t rows : {8, 9, 15, 16, 17, 31, 32, 33}) Compare(rows, 131, 37, {});
  // More rows than fit a block of prepared rows.
  Compare(70, 3001, 33, {});
}

TEST_P(LinearTest, AppliesTheEpilogue) {
  for (const bool bias : {false, true}) {
    for (const float scale : {1.0F, -0.37F}) {
      for (const Activation activation :
           {Activation::kNone, Activation::kSilu, Activation::kGelu, Activation::kTanh,
            Activation::kSigmoid, Activation::kSquaredRelu}) {
        for (const bool accumulate : {false, true}) {
          Compare(7, 65, 50, {bias, scale, activation, accumulate});
        }
      }
    }
  }
}

TEST_P(LinearTest, ChunksOfAPromptAgreeWithTheReference) {
  for (const int64_t rows : {0, 1, 30, 32}) {
    Compare(rows, 65, 50, {true, -0.37F, Activation::kSilu, true, 32});
    Compare(rows, 128, 33, {.chunk_rows = 32});
  }
}

// Nor on how many rows of the chunk there are.
TEST_P(LinearTest, ARowsBitsInAChunkDependOnThatRowAlone) {
  const int64_t in = 131, out = 37, chunk = 40;
  const std::vector<float> x = RandomFloats(chunk * in, 1);
  const LinearWeight weight = Pack(*device_, RandomFloats(out * in, 3), out, in);
  const auto run = [&](int64_t rows) {
    return Run(*device_, weight, std::span(x).first(static_cast<size_t>(rows * in)), {},
               std::vector<float>(static_cast<size_t>(rows * out)), {.chunk_rows = chunk});
  };
  const std::vector<float> all = run(chunk);
  for (const int64_t rows : {1, 2, 17, 39}) {
    const std::vector<float> y = run(rows);
    EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin())) << rows << " rows";
  }
}

TEST_P(LinearTest, GatedOutputAgreesWithTheReference) {
  for (const int64_t rows : {0, 1, 7, 64}) {
    for (const int64_t chunk_rows : {0, 70}) {
      const int64_t in = 129;
      const int64_t out = 37;
      const std::vector<float> o = RandomFloats(rows * in, 1);
      const std::vector<float> g = RandomFloats(rows * in, 2);
      const std::vector<float> w = RandomFloats(out * in, 3);
      const std::vector<float> y0 = RandomFloats(rows * out, 4);
      const std::vector<float> bias = rows == 7 ? std::vector<float>() : RandomFloats(out, 5);
      std::vector<float> product(o.size());
      std::transform(o.begin(), o.end(), g.begin(), product.begin(), std::multiplies<>());
      const std::vector<float> rounded = RoundedRows(GetParam(), product, in);
      const auto run = [&](Device& device, const std::vector<float>& o,
                           const std::vector<float>& g) {
        const LinearWeight weight = Pack(device, w, out, in);
        const DeviceArray<float> o_in(device, o), g_in(device, g), y_out(device, y0);
        const DeviceArray<float> b(device, bias);
        EXPECT_TRUE(GatedOutput(device, {.o = {o_in.data(), {rows, in}},
                                         .g = {g_in.data(), {rows, in}},
                                         .weight = &weight,
                                         .y = {y_out.data(), {rows, out}},
                                         .chunk_rows = chunk_rows,
                                         .bias = {b.data(), {std::ssize(bias)}}})
                        .ok());
        return y_out.Read();
      };
      const std::vector<float> y = run(*device_, o, g);
      const std::vector<float> expected =
          run(*reference_, rounded, std::vector<float>(rounded.size(), 1));
      const std::vector<float> used = WeightsAs(GetParam().dtype, w, in);
      for (size_t i = 0; i < y.size(); ++i) {
        double terms = bias.empty() ? 0 : std::abs(bias[i % static_cast<size_t>(out)]);
        for (int64_t c = 0; c < in; ++c) {
          const auto xi =
              i / static_cast<size_t>(out) * static_cast<size_t>(in) + static_cast<size_t>(c);
          terms +=
              std::abs(rounded[xi] * used[i % static_cast<size_t>(out) * static_cast<size_t>(in) +
                                          static_cast<size_t>(c)]);
        }
        const double bound = Gamma(SumRoundings(GetParam(), in) + 6) * terms;
        ASSERT_NEAR(y[i], expected[i], bound + 4e-7 * std::abs(expected[i])) << i;
      }
    }
  }
}

// The contract of linear.h: the same bits for a row alone and among others, and for any number of
// threads.
TEST_P(LinearTest, ARowsBitsDependOnThatRowAlone) {
  const int64_t in = 131;
  const int64_t out = 77;
  const int64_t most = 300;
  const std::vector<float> x = RandomFloats(most * in, 1);
  const std::vector<float> bias = RandomFloats(out, 2);
  const std::vector<float> w = RandomFloats(out * in, 3);
  const LinearWeight weight = Pack(*device_, w, out, in);
  const auto run = [&](Device& device, int64_t first, int64_t rows) {
    return Run(
        device, weight,
        std::span(x).subspan(static_cast<size_t>(first * in), static_cast<size_t>(rows * in)), bias,
        std::vector<float>(static_cast<size_t>(rows * out)),
        {.bias = true, .activation = Activation::kSilu});
  };
  const std::vector<float> all = run(*device_, 0, most);
  const std::unique_ptr<Device> one_thread = MakeTestDevice(GetParam().device, 1);
  EXPECT_EQ(all, run(*one_thread, 0, most));
  for (const int64_t rows : {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 33, 64}) {
    for (const int64_t first : {int64_t{0}, int64_t{5}, most - rows}) {
      const std::vector<float> y = run(*device_, first, rows);
      EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * out))
          << rows << " rows from " << first;
    }
  }
}

TEST_P(LinearTest, ARowsBitsOfGatedOutputDependOnThatRowAlone) {
  for (const auto& [in, out] : {std::pair(131, 77), std::pair(132, 77), std::pair(36, 2100)}) {
    const int64_t most = 20;
    const std::vector<float> o = RandomFloats(most * in, 1);
    const std::vector<float> g = RandomFloats(most * in, 2);
    const LinearWeight weight = Pack(*device_, RandomFloats(int64_t{out} * in, 3), out, in);
    const auto run = [&](int64_t first, int64_t rows) {
      const auto at = static_cast<size_t>(first * in), count = static_cast<size_t>(rows * in);
      const DeviceArray<float> o_in(*device_, std::span(o).subspan(at, count)),
          g_in(*device_, std::span(g).subspan(at, count)),
          y(*device_, std::vector<float>(static_cast<size_t>(rows * out), 0.3F));
      EXPECT_TRUE(GatedOutput(*device_, {.o = {o_in.data(), {rows, in}},
                                         .g = {g_in.data(), {rows, in}},
                                         .weight = &weight,
                                         .y = {y.data(), {rows, out}}})
                      .ok());
      return y.Read();
    };
    const std::vector<float> all = run(0, most);
    for (const int64_t rows : {1, 2, 3, 8, 9, 16, 17}) {
      for (const int64_t first : {int64_t{0}, most - rows}) {
        const std::vector<float> y = run(first, rows);
        EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * out))
            << rows << " rows from " << first << ", in " << in << ", out " << out;
      }
    }
  }
}

// Nor where so long a row is the work of several of a GPU's blocks, the last of which to arrive
// adds up what all left: in two calls, whose blocks arrive in whatever order, and among any rows.
TEST_P(LinearTest, ARowsBitsDependOnThatRowAloneWhereBlocksShareAnOutput) {
  const int64_t in = 3001, out = 20, most = 70;
  const std::vector<float> x = RandomFloats(most * in, 1);
  const LinearWeight weight = Pack(*device_, RandomFloats(out * in, 2), out, in);
  const auto run = [&](int64_t first, int64_t rows) {
    return Run(
        *device_, weight,
        std::span(x).subspan(static_cast<size_t>(first * in), static_cast<size_t>(rows * in)), {},
        std::vector<float>(static_cast<size_t>(rows * out)), {});
  };
  const std::vector<float> all = run(0, most);
  EXPECT_EQ(run(0, most), all);
  for (const int64_t rows : {1, 9, 16, 33}) {
    for (const int64_t first : {int64_t{0}, most - rows}) {
      const std::vector<float> y = run(first, rows);
      EXPECT_TRUE(std::equal(y.begin(), y.end(), all.begin() + first * out))
          << rows << " rows from " << first;
    }
  }
}

TEST_P(LinearTest, PacksSeveralMatricesAsOne) {
  const int64_t in = 21;
  const std::vector<float> a = RandomFloats(19 * in, 1);
  const std::vector<float> b = RandomFloats(40 * in, 2);
  std::vector<float> both = a;
  both.insert(both.end(), b.begin(), b.end());
  const HostMatrix parts[] = {{a.data(), 19, in}, {nullptr, 0, in}, {b.data(), 40, in}};
  const LinearWeight packed = PackLinear(*device_, parts, GetParam().dtype).value();
  const LinearWeight whole = Pack(*device_, both, 59, in);
  EXPECT_EQ(packed.out, 59);
  EXPECT_EQ(Bytes(packed), Bytes(whole));
}

// From bfloat16, at an odd address as files have it, and by a reader: the bits of the same values
// as float32. Wide enough for several pieces of whatever takes pieces.
TEST_P(LinearTest, PacksWhatAFileHoldsAsTheSameFloats) {
  const int64_t in = 1301, out = 37;
  const std::vector<float> values = WeightsAs(DType::kBFloat16, RandomFloats(out * in, 1), in);
  std::vector<char> halves(values.size() * sizeof(BFloat16) + 1);
  for (size_t i = 0; i < values.size(); ++i) {
    const BFloat16 half = ToBFloat16(values[i]);
    std::memcpy(halves.data() + 1 + i * sizeof(half), &half, sizeof(half));
  }
  std::vector<char> floats(values.size() * sizeof(float) + 1);
  std::memcpy(floats.data() + 1, values.data(), values.size() * sizeof(float));
  const std::vector<double> doubles(values.begin(), values.end());
  const HostMatrix::Reader reader = [](const void* data, int64_t first, int64_t count, float* to) {
    std::copy_n(static_cast<const double*>(data) + first, count, to);
  };
  const LinearWeight expected = Pack(*device_, values, out, in);
  for (const HostMatrix& matrix :
       {HostMatrix{halves.data() + 1, out, in, DType::kBFloat16},
        HostMatrix{floats.data() + 1, out, in},
        HostMatrix{.data = doubles.data(), .out = out, .in = in, .reader = reader}}) {
    const LinearWeight packed = PackLinear(*device_, {&matrix, 1}, GetParam().dtype).value();
    EXPECT_EQ(Bytes(packed), Bytes(expected));
  }
}

// Wherever it is in a row, and also where the weight that it meets is zero.
TEST_P(LinearTest, ARowThatIsNotFiniteHasNoFiniteOutput) {
  const int64_t in = 37, out = 20;
  const LinearWeight weight = Pack(*device_, std::vector<float>(out * in), out, in);
  for (const float value :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
        std::numeric_limits<float>::quiet_NaN()}) {
    for (const int64_t at : {0, 15, 36}) {
      std::vector<float> x(2 * in, 1.0F);
      x[static_cast<size_t>(at)] = value;
      const std::vector<float> y = Run(*device_, weight, x, {}, std::vector<float>(2 * out), {});
      for (int64_t o = 0; o < out; ++o) {
        EXPECT_FALSE(std::isfinite(y[static_cast<size_t>(o)])) << value << " at " << at;
        EXPECT_EQ(y[static_cast<size_t>(out + o)], 0);
      }
    }
  }
}

// Rounded to bfloat16, a NaN whose payload lies in the lower half must not become an infinity or,
// by the carry of the rounding, a zero: a poisoned state has to show in the logits.
TEST_P(LinearTest, EveryNaNStaysNaN) {
  for (const uint32_t bits : {0x7fffffffU, 0x7f800001U, 0xffc00000U, 0xffffffffU}) {
    float nan;
    std::memcpy(&nan, &bits, sizeof(nan));
    const std::vector<float> x = {1, nan, 1, 1};
    const std::vector<float> w(4, 1.0F);
    const std::vector<float> y = Run(*device_, Pack(*device_, w, 1, 4), x, {}, {0}, {});
    EXPECT_TRUE(std::isnan(y[0])) << std::hex << bits;
  }
}

INSTANTIATE_TEST_SUITE_P(All, LinearTest, testing::ValuesIn(LinearOpCases()), kCaseName);

// The vector conversion of x agrees with the scalar one bit for bit: an identity matrix shows it.
class LinearRoundingTest : public testing::TestWithParam<DeviceCase> {};

TEST_P(LinearRoundingTest, RoundsToNearestEven) {
  TVQ_SKIP_WITHOUT_DEVICE(GetParam());
  const std::unique_ptr<Device> device = MakeTestDevice(GetParam());
  std::vector<float> x = {1.0F,
                          0x1.01p0F,
                          0x1.03p0F,
                          0x1.010002p0F,
                          -0x1.01p0F,
                          0x1.fffffep127F,
                          std::numeric_limits<float>::infinity(),
                          3.14159F};
  const std::vector<float> more = RandomFloats(1000, 1);
  x.insert(x.end(), more.begin(), more.end());
  const float one = 1;
  const HostMatrix matrix{&one, 1, 1};
  const LinearWeight weight = PackLinear(*device, {&matrix, 1}, DType::kBFloat16).value();
  const auto rows = static_cast<int64_t>(x.size());
  const DeviceArray<float> in(*device, x), out(*device, std::vector<float>(x.size()));
  ASSERT_TRUE(Linear(*device,
                     {.x = {in.data(), {rows, 1}}, .weight = &weight, .y = {out.data(), {rows, 1}}})
                  .ok());
  const std::vector<float> y = out.Read();
  for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(y[i], ToFloat(ToBFloat16(x[i]))) << x[i];
}

INSTANTIATE_TEST_SUITE_P(All, LinearRoundingTest, testing::ValuesIn(LinearDevices()), kCaseName);

class LinearChecksTest : public testing::Test {
 protected:
  void ExpectError(const absl::Status& status, const std::string& text) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
  }

  std::unique_ptr<Device> device_ = MakeDevice("cpu", 1).value();
  std::vector<float> data_ = std::vector<float>(64);
  HostMatrix matrix_{data_.data(), 3, 4};
  LinearWeight weight_ = PackLinear(*device_, {&matrix_, 1}, DType::kFloat32).value();
};

TEST_F(LinearChecksTest, NameTheArgument) {
  const Matrix<const float> x{data_.data(), {2, 4}};
  const Matrix<float> y{data_.data(), {2, 3}};
  ExpectError(Linear(*device_, {.x = x, .y = y}), "Linear: weight is missing");
  ExpectError(Linear(*device_, {.x = x, .weight = &weight_, .y = {data_.data(), {1, 3}}}),
              "Linear: y is [1,3], expected [2,3]");
  ExpectError(Linear(*device_, {.x = {data_.data(), {2, 5}}, .weight = &weight_, .y = y}),
              "weight is [3,4], expected [3,5]");
  ExpectError(Linear(*device_, {.x = x, .weight = &weight_, .bias = {data_.data(), {4}}, .y = y}),
              "bias is [4], expected [3]");
  ExpectError(Linear(*device_, {.x = {nullptr, {2, 4}}, .weight = &weight_, .y = y}),
              "x has no data");
  ExpectError(Linear(*device_, {.x = x, .weight = &weight_, .y = y, .chunk_rows = 1}),
              "Linear: x has 2 rows, expected at most 1, a chunk's");
  ExpectError(GatedOutput(*device_, {.o = x, .g = y, .weight = &weight_, .y = y}),
              "GatedOutput: g is [2,3], expected [2,4]");
}

TEST_F(LinearChecksTest, PackingRefusesUnequalWidths) {
  const HostMatrix parts[] = {matrix_, {data_.data(), 2, 5}};
  ExpectError(PackLinear(*device_, parts, DType::kFloat32).status(), "parts[1] is [2,5]");
  ExpectError(PackLinear(*device_, {}, DType::kFloat32).status(), "no matrix");
  const std::vector<float> wide(kMaxInt8Width + 1);
  const HostMatrix too_wide{wide.data(), 1, kMaxInt8Width + 1};
  ExpectError(PackLinear(*device_, {&too_wide, 1}, DType::kInt8).status(),
              "parts[0] has 65537 columns, expected at most 65536 of an int8 weight");
  ExpectError(PackLinear(*device_, {&too_wide, 1}, DType::kInt4).status(),
              "parts[0] has 65537 columns, expected at most 65536 of an int4 weight");
  const int8_t quantized[4] = {};
  const HostMatrix without_scales{quantized, 2, 2, DType::kInt8};
  ExpectError(PackLinear(*device_, {&without_scales, 1}, DType::kInt8).status(),
              "parts[0] is int8 and has no scales");
  const HostMatrix nowhere{nullptr, 2, 2};
  ExpectError(PackLinear(*device_, {&nowhere, 1}, DType::kFloat32).status(),
              "parts[0] has no data");
  const HostMatrix int4{quantized, 2, 2, DType::kInt4};
  ExpectError(PackLinear(*device_, {&int4, 1}, DType::kInt4).status(),
              "parts[0] is int4, expected float32, bfloat16 or int8");
}

TEST_F(LinearChecksTest, PackingRowsNamesWhatIsMissing) {
  LinearWeight packed;
  ExpectError(PackRows(*device_, {{&matrix_, 1}, DType::kFloat32, nullptr}),
              "PackLinear: packed is missing");
  ExpectError(PackRows(*device_, {{&matrix_, 1}, DType::kInt8, &packed}),
              "PackLinear: parts[0] has no scales, expected those of int8 rows");
  const HostMatrix no_rows{nullptr, 0, 4};
  EXPECT_TRUE(PackRows(*device_, {{&no_rows, 1}, DType::kInt8, &packed}).ok());
}

}  // namespace
}  // namespace tvq
