#include <algorithm>
#include <cstring>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/bfloat16.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear/fixed_point.h"
#include "kernels/cpu/linear/packed_weight.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

// Row `out` of the matrices stacked one below the other, all of them float32 or all int8; null
// below the last.
template <typename T>
const T* SourceRow(std::span<const HostMatrix> parts, int64_t out) {
  for (const HostMatrix& part : parts) {
    if (out < part.out) {
      if constexpr (std::is_same_v<T, int8_t>) {
        return part.quantized + out * part.in;
      } else {
        return part.data + out * part.in;
      }
    }
    out -= part.out;
  }
  return nullptr;
}

void PackFloat32(const float* const* rows, int64_t in, float* panel) {
  for (int64_t i = 0; i < in; ++i) {
    for (int64_t j = 0; j < kPanelOutputs; ++j) {
      panel[i * kPanelOutputs + j] = rows[j] == nullptr ? 0.0F : rows[j][i];
    }
  }
}

void PackBFloat16(const float* const* rows, int64_t in, BFloat16* panel) {
  constexpr int64_t kPiece = 256;  // rounded by vectors, then laid out pair by pair
  for (int64_t j = 0; j < kPanelOutputs; ++j) {
    if (rows[j] == nullptr) continue;
    for (int64_t begin = 0; begin < in; begin += kPiece) {
      BFloat16 piece[kPiece + 1];
      const int64_t count = std::min(in - begin, kPiece);
      for (int64_t i = 0; i < count; ++i) piece[i] = ToBFloat16(rows[j][begin + i]);
      piece[count] = {};
      BFloat16* to = panel + begin / 2 * kPairOutputs + 2 * j;
      for (int64_t i = 0; i < count; i += 2, to += kPairOutputs) {
        std::memcpy(to, piece + i, 2 * sizeof(BFloat16));
      }
    }
  }
}

void PackInt8(const int8_t* const* rows, int64_t in, uint8_t* panel) {
  std::memset(panel, kInt8Offset, static_cast<size_t>(PanelLines(in, DType::kInt8) * kLineBytes));
  const int64_t whole = in / 4 * 4;
  for (int64_t j = 0; j < kPanelOutputs; ++j) {
    if (rows[j] == nullptr) continue;
    uint8_t* to = panel + 4 * j;
    for (int64_t i = 0; i < whole; i += 4, to += kLineBytes) {
      uint32_t four;
      std::memcpy(&four, rows[j] + i, sizeof(four));
      four ^= 0x80808080U;  // + kInt8Offset in each byte
      std::memcpy(to, &four, sizeof(four));
    }
    for (int64_t i = whole; i < in; ++i) *to++ = static_cast<uint8_t>(rows[j][i] + kInt8Offset);
  }
}

// Values [first, first + count) of one row, as output `j` of a pair, into the lines of their group.
void PackInt4Group(const float* values, int64_t count, int64_t j, std::byte* lines) {
  int8_t q[kInt4Group] = {};
  const BFloat16 scale = QuantizeGroup({values, static_cast<size_t>(count)}, q);
  std::memcpy(lines + j * static_cast<int64_t>(sizeof(scale)), &scale, sizeof(scale));
  std::byte* to = lines + kLineBytes * (1 + j / kPanelOutputs * kInt4PanelLines);
  to += j % kPanelOutputs * 4;
  for (int64_t i = 0; i < kInt4Group; i += 8, to += kLineBytes) {
    for (int64_t k = 0; k < 4; ++k) {
      const int lower = q[i + k] + kInt4Offset, upper = q[i + 4 + k] + kInt4Offset;
      to[k] = static_cast<std::byte>(lower | upper << 4);
    }
  }
}

// A pair of panels. Padding has scales of zero.
void PackInt4(std::span<const HostMatrix> parts, int64_t pair, int64_t in, std::byte* to) {
  std::memset(to, 0, static_cast<size_t>(PairBytes(in, DType::kInt4)));
  for (int64_t j = 0; j < kPairOutputs; ++j) {
    const float* row = SourceRow<float>(parts, pair * kPairOutputs + j);
    if (row == nullptr) return;
    for (int64_t i = 0; i < in; i += kInt4Group) {
      PackInt4Group(row + i, std::min(kInt4Group, in - i), j,
                    to + i / kInt4Group * kInt4PairLines * kLineBytes);
    }
  }
}

template <typename T>
struct PanelRows {
  PanelRows(std::span<const HostMatrix> parts, int64_t panel) {
    for (int64_t j = 0; j < kPanelOutputs; ++j) {
      rows[j] = SourceRow<T>(parts, panel * kPanelOutputs + j);
    }
  }
  const T* rows[kPanelOutputs];
};

// Whole huge pages for what is large: every decode step streams all of it, and a tail on small
// pages made a step of a 190 M model 7% slower.
size_t BlockBytes(size_t bytes) {
  if (bytes < kHugePage) return bytes;
  return (bytes + kHugePage - 1) / kHugePage * kHugePage;
}

}  // namespace

absl::StatusOr<LinearWeight> CpuPackLinear(Device& device, std::span<const HostMatrix> parts,
                                           DType dtype) {
  LinearWeight weight{.in = parts[0].in, .dtype = dtype};
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
    return weight;
  }
  const int64_t panel_bytes = PairBytes(weight.in, dtype) / 2;
  AsCpu(device).pool().ParallelFor(2 * pairs, [&](int64_t panel) {
    std::byte* to = weight.data.as<std::byte>() + panel * panel_bytes;
    if (dtype == DType::kInt8) {
      PackInt8(PanelRows<int8_t>(parts, panel).rows, weight.in, reinterpret_cast<uint8_t*>(to));
    } else if (dtype == DType::kBFloat16) {
      PackBFloat16(PanelRows<float>(parts, panel).rows, weight.in, reinterpret_cast<BFloat16*>(to));
    } else {
      PackFloat32(PanelRows<float>(parts, panel).rows, weight.in, reinterpret_cast<float*>(to));
    }
  });
  return weight;
}

}  // namespace tvq
