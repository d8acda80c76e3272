// AMX in software, for the tiles of kernels/cpu/linear/tile_amx-inl.h where no processor has it:
// what Intel's SDM, volume 2, says of LDTILECFG, TILERELEASE, TILELOADD, TILESTORED, TDPBF16PS and
// TDPBSUD. What would be a fault of the processor ends the process, and so do tiles that nobody
// released, which an operating system would have to save for as long as the thread lives.
#ifndef TVQ_TESTS_KERNELS_CPU_AMX_STAND_IN_H_
#define TVQ_TESTS_KERNELS_CPU_AMX_STAND_IN_H_

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/linear/tile_amx-inl.h"

namespace tvq {

class AmxStandIn {
 public:
  ~AmxStandIn() { Require(!configured_, "tiles are not released"); }

  void Configure(const AmxShapes& shapes) {
    Require(shapes.palette == 1 && shapes.start_row == 0, "palette and start row");
    for (int tile = 0; tile < 16; ++tile) {
      const int64_t rows = shapes.rows[tile], row_bytes = shapes.row_bytes[tile];
      Require(tile < kTiles || (rows == 0 && row_bytes == 0), "a tile that palette 1 lacks");
      Require(rows <= kRows && row_bytes <= kRowBytes, "a tile is too large");
      Require((rows == 0) == (row_bytes == 0), "a tile has rows or bytes alone");
      if (tile < kTiles) tiles_[tile] = {.rows = rows, .row_bytes = row_bytes};
    }
    configured_ = true;
  }

  void Release() {
    for (Tile& tile : tiles_) tile = {};
    configured_ = false;
  }

  template <int kTile>
  void Load(const void* from, int64_t stride) {
    Tile& tile = Usable(kTile);
    std::memset(tile.data, 0, sizeof(tile.data));
    for (int64_t r = 0; r < tile.rows; ++r) {
      std::memcpy(tile.data[r], static_cast<const std::byte*>(from) + r * stride,
                  static_cast<size_t>(tile.row_bytes));
    }
  }

  template <int kTile>
  void Store(void* to, int64_t stride) {
    const Tile& tile = Usable(kTile);
    for (int64_t r = 0; r < tile.rows; ++r) {
      std::memcpy(static_cast<std::byte*>(to) + r * stride, tile.data[r],
                  static_cast<size_t>(tile.row_bytes));
    }
  }

  template <AmxFactors kFactors, int kSums, int kA, int kB>
  void Dot() {
    Tile& sums = Usable(kSums);
    const Tile& a = Usable(kA);
    const Tile& b = Usable(kB);
    Require(sums.rows == a.rows && sums.row_bytes == b.row_bytes && a.row_bytes == 4 * b.rows,
            "shapes of factors and sums");
    for (int64_t m = 0; m < sums.rows; ++m) {
      if constexpr (kFactors == AmxFactors::kBFloat16) {
        AddPairs(sums, a, b, m);
      } else {
        AddFours(sums, a, b, m);
      }
    }
  }

 private:
  static constexpr int kTiles = 8;
  static constexpr int64_t kRows = 16;
  static constexpr int64_t kRowBytes = 64;

  struct Tile {
    int64_t rows = 0;
    int64_t row_bytes = 0;
    std::byte data[kRows][kRowBytes] = {};

    template <typename T>
    T Get(int64_t row, int64_t i) const {
      T value;
      std::memcpy(&value, data[row] + i * static_cast<int64_t>(sizeof(T)), sizeof(T));
      return value;
    }
    template <typename T>
    void Set(int64_t row, int64_t i, T value) {
      std::memcpy(data[row] + i * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
    }
  };

  static void Require(bool condition, const char* what) {
    if (condition) return;
    std::fprintf(stderr, "AMX: %s\n", what);
    std::abort();
  }

  Tile& Usable(int tile) {
    Require(configured_ && tiles_[tile].rows > 0, "a tile without a shape is used");
    return tiles_[tile];
  }

  // DAZ and FTZ, whatever MXCSR says.
  static float Flushed(float x) {
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0F, x) : x;
  }
  static float Widened(uint16_t bfloat16) {
    const uint32_t bits = static_cast<uint32_t>(bfloat16) << 16;
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    return Flushed(x);
  }

  // TDPBF16PS: fused multiply-adds along both halves of the pairs, then the sum of both.
  static void AddPairs(Tile& sums, const Tile& a, const Tile& b, int64_t m) {
    for (int64_t n = 0; n < sums.row_bytes / 4; ++n) {
      float half[2] = {};
      for (int64_t k = 0; k < a.row_bytes / 4; ++k) {
        for (int64_t i = 0; i < 2; ++i) {
          half[i] = Flushed(std::fma(Widened(a.Get<uint16_t>(m, 2 * k + i)),
                                     Widened(b.Get<uint16_t>(k, 2 * n + i)), half[i]));
        }
      }
      const float old = Flushed(sums.Get<float>(m, n));
      sums.Set(m, n, Flushed(old + Flushed(half[0] + half[1])));
    }
  }

  // TDPBSUD: without saturation.
  static void AddFours(Tile& sums, const Tile& a, const Tile& b, int64_t m) {
    for (int64_t n = 0; n < sums.row_bytes / 4; ++n) {
      auto sum = sums.Get<uint32_t>(m, n);
      for (int64_t k = 0; k < a.row_bytes / 4; ++k) {
        for (int64_t i = 0; i < 4; ++i) {
          sum += static_cast<uint32_t>(a.Get<int8_t>(m, 4 * k + i) * b.Get<uint8_t>(k, 4 * n + i));
        }
      }
      sums.Set(m, n, sum);
    }
  }

  bool configured_ = false;
  Tile tiles_[kTiles];
};

// The best CPU device there is, with linears by that.
inline std::unique_ptr<Device> MakeAmxStandIn(int threads) {
  const std::unique_ptr<Device> best = MakeDevice("cpu", threads).value();
  DotInstructions dot = AsCpu(*best).dot();
  dot.amx = &kAmxTilesOf<AmxStandIn>;
  return std::make_unique<CpuDevice>(&CpuBackend(), AsCpu(*best).pool().threads(), dot,
                                     "cpu (AMX stand-in)");
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_CPU_AMX_STAND_IN_H_
