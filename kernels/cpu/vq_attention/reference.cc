// Naive loops: the state in float32 pairs as the op's header says, everything else in float64.
// Prefill is decode, position by position.
#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/vq_attention/undo.h"
#include "kernels/cpu/vq_attention/window.h"
#include "kernels/numbers/bfloat16.h"
#include "kernels/numbers/read_copy.h"
#include "kernels/numbers/two_sum.h"
#include "kernels/ops/attention/vq_attention.h"

namespace tvq {
namespace {

float WindowValue(const VqShape& shape, const VqState& state, int64_t index) {
  return shape.value_dtype == DType::kFloat32
             ? static_cast<const float*>(state.window_value)[index]
             : ToFloat(static_cast<const BFloat16*>(state.window_value)[index]);
}

void SetWindowValue(const VqShape& shape, const VqState& state, int64_t index, float value) {
  if (shape.value_dtype == DType::kFloat32) {
    static_cast<float*>(state.window_value)[index] = value;
  } else {
    static_cast<BFloat16*>(state.window_value)[index] = ToBFloat16(value);
  }
}

// Makes the copy of one row: values [V] are exact.
void QuantizeRow(const std::vector<float>& values, int8_t* row, float* scales) {
  const auto count = static_cast<int64_t>(values.size());
  for (int64_t first = 0; first < count; first += kVqScaleColumns) {
    const int64_t end = std::min(first + kVqScaleColumns, count);
    int32_t largest = 0;
    for (int64_t c = first; c < end; ++c) {
      const float absolute = std::abs(values[static_cast<size_t>(c)]);
      largest = std::max(largest, std::bit_cast<int32_t>(absolute));
    }
    const QuantizedScale scale(largest);
    scales[first / kVqScaleColumns] = scale.scale;
    for (int64_t c = first; c < end; ++c) {
      const float steps = scale.inverse == 0 ? 0 : values[static_cast<size_t>(c)] * scale.inverse;
      row[c] = static_cast<int8_t>(std::nearbyint(steps));
    }
  }
}

void RefreshCopy(const VqShape& shape, const VqState& state, int64_t g, int64_t position,
                 int32_t retired) {
  if (shape.read == VqRead::kExact) return;
  std::vector<float> values(static_cast<size_t>(shape.value));
  const int64_t slot = g * shape.window + position % shape.window;
  for (size_t c = 0; c < values.size(); ++c) {
    values[c] = WindowValue(shape, state, slot * shape.value + static_cast<int64_t>(c));
  }
  QuantizeRow(values, state.recent + slot * shape.value,
              state.recent_scale + slot * shape.scales());
  if (retired == kNoCode) return;
  const int64_t row = g * shape.codes + retired;
  for (size_t c = 0; c < values.size(); ++c) {
    values[c] = state.sum[row * shape.value + static_cast<int64_t>(c)] /
                static_cast<float>(state.count[row]);
  }
  QuantizeRow(values, state.mean + row * shape.value, state.mean_scale + row * shape.scales());
}

// codes [G], v [G, V].
void AppendPosition(const VqShape& shape, const VqState& state, int64_t position,
                    const int32_t* codes, const float* v) {
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    KeepOverwritten(shape, state, g, position);
    const int32_t retired = AppendCode(shape, state, g, position, codes[g]);
    const int64_t slot = (g * shape.window + position % shape.window) * shape.value;
    for (int64_t c = 0; c < shape.value; ++c) {
      if (retired != kNoCode) {
        const int64_t u = (g * shape.codes + retired) * shape.value + c;
        AddTwoSum(WindowValue(shape, state, slot + c), state.sum[u], state.carry[u]);
      }
      SetWindowValue(shape, state, slot + c, v[g * shape.value + c]);
    }
    RefreshCopy(shape, state, g, position, retired);
  }
}

// A row of values that may be read.
struct Row {
  int64_t index;  // of a code, or of a slot of the window, among those of all heads
  bool recent;
  double count;  // positions that it stands for
};

// Rows of head g, with the newest position: codes first, then positions from the newest one on.
std::vector<Row> RowsOf(const VqShape& shape, const VqState& state, int64_t g, int64_t position) {
  std::vector<Row> rows;
  for (int64_t s = g * shape.codes; s < (g + 1) * shape.codes; ++s) {
    if (state.count[s] > 0) rows.push_back({s, false, static_cast<double>(state.count[s])});
  }
  for (int64_t d = 0; d < std::min(position + 1, shape.window); ++d) {
    rows.push_back({g * shape.window + (position - d) % shape.window, true, 1});
  }
  return rows;
}

// Share of each row in one head's softmax. code_scores [S], position_scores [W].
std::vector<double> Shares(const VqShape& shape, const VqState& state, const std::vector<Row>& rows,
                           const float* code_scores, const float* position_scores) {
  std::vector<double> shares;
  int64_t distance = 0;
  for (const Row& row : rows) {
    const int64_t code = row.recent ? state.window_code[row.index] : row.index % shape.codes;
    shares.push_back(code_scores[code]);
    if (row.recent) shares.back() += position_scores[distance++];
  }
  const double maximum = *std::max_element(shares.begin(), shares.end());
  double sum = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    sum += shares[i] = std::exp(shares[i] - maximum) * rows[i].count;
  }
  for (double& share : shares) share /= sum;
  return shares;
}

// Column c of the mean of a row's positions, as decode reads it or exactly.
double ValueOf(const VqShape& shape, const VqState& state, const Row& row, int64_t c, VqRead read) {
  const int64_t at = row.index * shape.value + c;
  if (read == VqRead::kExact) {
    return row.recent ? WindowValue(shape, state, at) : state.sum[at] / row.count;
  }
  const int64_t scale = row.index * shape.scales() + c / kVqScaleColumns;
  return row.recent ? static_cast<double>(state.recent[at]) * state.recent_scale[scale]
                    : static_cast<double>(state.mean[at]) * state.mean_scale[scale];
}

// A head leaves out the rows whose shares are below the result. These are the smallest shares that
// make up at most `skip_mass`, except those in the same eighth of a power of two as the first share
// too many or as the largest share. Where there is a NaN, all rows are read, so that it shows.
double LeastShareRead(std::vector<double> shares, double skip_mass) {
  if (std::any_of(shares.begin(), shares.end(), [](double s) { return std::isnan(s); })) return 0;
  std::sort(shares.begin(), shares.end());
  size_t count = 0;
  for (double total = 0; count + 1 < shares.size(); ++count) {
    total += shares[count];
    if (total > skip_mass) break;
  }
  int exponent = 0;
  const double mantissa = std::frexp(shares[count], &exponent);  // 1/2 to 1
  return std::ldexp(std::floor(mantissa * 16) / 16, exponent);
}

// What a key/value head reads, and how it reports that.
struct Reading {
  VqRead read = VqRead::kExact;
  float skip_mass = 0;
  float* skipped_mass = nullptr;  // [heads that share it], or null
  int32_t* row_reads = nullptr;   // [2], or null
};

// Attention of the newest position for the `shared` heads of key/value head g. code_scores
// [shared, S], position_scores [shared, W], out [shared, V].
void Attend(const VqShape& shape, const VqState& state, int64_t g, int64_t position, int64_t shared,
            const float* code_scores, const float* position_scores, const Reading& reading,
            float* out) {
  const std::vector<Row> rows = RowsOf(shape, state, g, position);
  std::vector<std::vector<double>> shares;
  std::vector<uint8_t> kept(rows.size(), reading.skip_mass > 0 ? 0 : 1);
  for (int64_t h = 0; h < shared; ++h) {
    shares.push_back(Shares(shape, state, rows, code_scores + h * shape.codes,
                            position_scores + h * shape.window));
    const double least = LeastShareRead(shares.back(), reading.skip_mass);
    for (size_t i = 0; i < rows.size(); ++i) {
      if (!(shares.back()[i] < least)) kept[i] = 1;
    }
  }
  for (int64_t h = 0; h < shared; ++h) {
    double mass[2] = {};  // left out, kept
    std::vector<double> sum(static_cast<size_t>(shape.value));
    for (size_t i = 0; i < rows.size(); ++i) {
      const double share = shares[static_cast<size_t>(h)][i];
      mass[kept[i]] += share;
      if (kept[i] == 0) continue;
      for (int64_t c = 0; c < shape.value; ++c) {
        sum[static_cast<size_t>(c)] += share * ValueOf(shape, state, rows[i], c, reading.read);
      }
    }
    for (int64_t c = 0; c < shape.value; ++c) {
      out[h * shape.value + c] = static_cast<float>(sum[static_cast<size_t>(c)] / mass[1]);
    }
    if (reading.skipped_mass != nullptr) reading.skipped_mass[h] = static_cast<float>(mass[0]);
  }
  if (reading.row_reads == nullptr) return;
  reading.row_reads[0] = static_cast<int32_t>(rows.size());
  reading.row_reads[1] = static_cast<int32_t>(std::count(kept.begin(), kept.end(), 1));
}

}  // namespace

absl::Status ReferenceVqDecodeAttention(Device&, const VqDecodeAttentionArgs& args) {
  const VqShape& shape = args.shape;
  const int64_t heads = args.code_scores.dim(1), shared = heads / shape.kv_heads;
  for (int64_t n = 0; n < args.code_scores.dim(0); ++n) {
    float* skipped_mass = args.skipped_mass.empty() ? nullptr : args.skipped_mass.row(n);
    int32_t* row_reads = args.row_reads.empty() ? nullptr : args.row_reads.row(n);
    const VqState& state = args.states.data[n];
    if (state.none()) {
      std::fill_n(args.out.row(n), heads * shape.value, 0.0F);
      if (skipped_mass != nullptr) std::fill_n(skipped_mass, heads, 0.0F);
      if (row_reads != nullptr) std::fill_n(row_reads, 2 * shape.kv_heads, 0);
      continue;
    }
    const int64_t position = args.positions.data[n];
    AppendPosition(shape, state, position, args.codes.row(n), args.v.row(n));
    for (int64_t g = 0; g < shape.kv_heads; ++g) {
      const int64_t h = g * shared;
      Attend(shape, state, g, position, shared, args.code_scores.row(n) + h * shape.codes,
             args.position_scores.row(n) + h * shape.window,
             {shape.read, args.skip_mass, skipped_mass == nullptr ? nullptr : skipped_mass + h,
              row_reads == nullptr ? nullptr : row_reads + 2 * g},
             args.out.row(n) + h * shape.value);
    }
  }
  return absl::OkStatus();
}

absl::Status ReferenceVqPrefillAttention(Device&, const VqPrefillAttentionArgs& args) {
  const VqShape& shape = args.shape;
  const int64_t shared = args.code_scores.dim(1) / shape.kv_heads;
  for (int64_t t = 0; t < args.code_scores.dim(0); ++t) {
    const int64_t position = args.position + t;
    AppendPosition(shape, args.state, position, args.codes.row(t), args.v.row(t));
    for (int64_t g = 0; g < shape.kv_heads; ++g) {
      const int64_t h = g * shared;
      Attend(shape, args.state, g, position, shared, args.code_scores.row(t) + h * shape.codes,
             args.position_scores.row(t) + h * shape.window, {}, args.out.row(t) + h * shape.value);
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq
