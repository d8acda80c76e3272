#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/packed_weight.h"
#include "kernels/cpu/linear/quantize_groups.h"
#include "kernels/ops/check.h"
#include "kernels/ops/linear.h"

namespace tvq {
namespace {

// Where row `out` lies, counted over all matrices one below the other. `matrix` is null for rows
// below the last.
struct SourceRow {
  SourceRow(std::span<const HostMatrix> parts, int64_t out) {
    for (const HostMatrix& part : parts) {
      if (out < part.out) {
        matrix = &part;
        row = out;
        return;
      }
      out -= part.out;
    }
  }

  // Reads values [first, first + count); those behind the row's end are zeros.
  template <typename T>
  void Read(int64_t first, int64_t count, T* to) const {
    const int64_t there = matrix == nullptr ? 0 : std::min(count, matrix->in - first);
    if (there > 0) ReadValues(*matrix, row, first, there, to);
    std::fill(to + there, to + count, T{});
  }

  const HostMatrix* matrix = nullptr;
  int64_t row = 0;
};

// Packs a panel of T, where a step is four bytes of a row. The rows are converted to T in pieces
// that stay in the L1 cache, and written line by line.
template <typename T>
void PackPanel(std::span<const HostMatrix> parts, int64_t panel, int64_t in, DType dtype,
               std::byte* to) {
  constexpr int64_t kSteps = 64, kValues = 4 / sizeof(T);
  constexpr uint32_t kFlip = std::is_same_v<T, int8_t> ? 0x80808080U : 0;  // + kInt8Offset each
  // Rows are not a power of two apart, since all of them would then share few lines of the cache.
  alignas(kLineBytes) T piece[kPanelOutputs][(kSteps + 4) * kValues];
  const int64_t lines = PanelLines(in, dtype);
  for (int64_t begin = 0; begin < lines; begin += kSteps) {
    const int64_t count = std::min(kSteps, lines - begin);
    for (int64_t j = 0; j < kPanelOutputs; ++j) {
      SourceRow(parts, panel * kPanelOutputs + j).Read(begin * kValues, count * kValues, piece[j]);
    }
    for (int64_t i = 0; i < count; ++i, to += kPairLineBytes) {
      for (int64_t j = 0; j < kPanelOutputs; ++j) {
        uint32_t step;
        std::memcpy(&step, piece[j] + i * kValues, sizeof(step));
        step ^= kFlip;
        std::memcpy(to + 4 * j, &step, sizeof(step));
      }
    }
  }
}

// Writes a group of output `j` of a pair to the group's lines.
void PackInt4Group(BFloat16 scale, const uint32_t* words, int64_t j, std::byte* lines) {
  std::memcpy(lines + j * static_cast<int64_t>(sizeof(scale)), &scale, sizeof(scale));
  std::byte* to = lines + kLineBytes * (1 + j / kPanelOutputs * kInt4PanelLines);
  to += j % kPanelOutputs * 4;
  for (int64_t i = 0; i < kInt4Words; ++i) std::memcpy(to + i * kLineBytes, words + i, 4);
}

// Packs a pair of panels. Padding has scales of zero.
void PackInt4(std::span<const HostMatrix> parts, int64_t pair, int64_t in, std::byte* to) {
  // So many groups of so many rows are quantized at a time; together they fill vectors of groups.
  constexpr int64_t kGroups = 16, kRows = 4;
  static_assert(kPairOutputs % kRows == 0);
  const int64_t groups = Int4Groups(in);
  if (SourceRow(parts, (pair + 1) * kPairOutputs - 1).matrix == nullptr) {
    std::memset(to, 0, static_cast<size_t>(PairBytes(in, DType::kInt4)));
  }
  for (int64_t begin = 0; begin < groups; begin += kGroups) {
    const int64_t count = std::min(kGroups, groups - begin);
    for (int64_t first = 0; first < kPairOutputs; first += kRows) {
      float values[kRows * kGroups * kInt4Group];
      uint32_t words[kRows * kGroups * kInt4Words];
      BFloat16 scales[kRows * kGroups];
      int64_t rows = 0;
      for (; rows < kRows; ++rows) {
        const SourceRow row(parts, pair * kPairOutputs + first + rows);
        if (row.matrix == nullptr) break;
        row.Read(begin * kInt4Group, count * kInt4Group, values + rows * count * kInt4Group);
      }
      QuantizeGroups(values, rows * count, scales, words);
      for (int64_t i = 0; i < rows * count; ++i) {
        PackInt4Group(scales[i], words + i * kInt4Words, first + i / count,
                      to + (begin + i % count) * kInt4PairLines * kLineBytes);
      }
    }
  }
}

// Large weights take whole huge pages: every decode step streams all of a weight, and a tail on
// small pages made a step of a 190 M model 7% slower.
size_t BlockBytes(size_t bytes) {
  if (bytes < kHugePage) return bytes;
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

absl::Status CpuPackRows(Device& device, const PackRowsArgs& args) {
  const std::span<const HostMatrix> parts = args.parts;
  const DType dtype = args.dtype;
  LinearWeight& weight = *args.packed = {.in = parts[0].in, .dtype = dtype};
  if ((dtype == DType::kInt8 || dtype == DType::kInt4) && weight.in > kMaxInt8Width) {
    return ArgumentError("PackLinear",
                         absl::StrCat("parts[0] has ", weight.in, " columns, expected at most ",
                                      kMaxInt8Width, " of an ", Name(dtype), " weight"));
  }
  for (const HostMatrix& part : parts) weight.out += part.out;
  const int64_t pairs = PanelPairs(weight.out);
  absl::StatusOr<Buffer> data =
      device.Allocate(BlockBytes(static_cast<size_t>(pairs * PairBytes(weight.in, dtype))));
  if (!data.ok()) return data.status();
  weight.data = *std::move(data);
  if (dtype == DType::kInt4) {
    AsCpu(device).pool().ParallelFor(pairs, [&](int64_t pair) {
      PackInt4(parts, pair, weight.in,
               weight.data.as<std::byte>() + pair * PairBytes(weight.in, dtype));
    });
    return absl::OkStatus();
  }
  const int64_t pair_bytes = PairBytes(weight.in, dtype);
  AsCpu(device).pool().ParallelFor(2 * pairs, [&](int64_t panel) {
    std::byte* to = weight.data.as<std::byte>() + panel / 2 * pair_bytes + panel % 2 * kLineBytes;
    if (dtype == DType::kInt8) {
      PackPanel<int8_t>(parts, panel, weight.in, dtype, to);
    } else if (dtype == DType::kBFloat16) {
      PackPanel<BFloat16>(parts, panel, weight.in, dtype, to);
    } else {
      PackPanel<float>(parts, panel, weight.in, dtype, to);
    }
  });
  return absl::OkStatus();
}

}  // namespace tvq
