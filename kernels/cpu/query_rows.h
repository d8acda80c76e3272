// The queries whose weights are multiplied with packed rows of values, and where the sums go.
#ifndef TVQ_KERNELS_CPU_QUERY_ROWS_H_
#define TVQ_KERNELS_CPU_QUERY_ROWS_H_

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tvq {

// The columns of a task: rows of values are packed this many columns at a time.
inline constexpr int64_t kPackColumns = 64;
inline constexpr int64_t kPackLineBytes = 64;

// The queries of one key/value head: rows r = head * block + query.
template <typename Weight>
struct QueryRowsOf {
  const Weight* weight;  // row r: weight + r * weight_stride
  int64_t weight_stride;
  int64_t count;
  int64_t block;
  float* out;  // row r, columns of the tile first: out + query * query_stride + head * head_stride
  int64_t query_stride;
  int64_t head_stride;
  // Where in a row the weights of the block's own positions begin. A query has one more of these
  // than the query before it; the weights behind them are zero and are not multiplied.
  int64_t own = std::numeric_limits<int64_t>::max() / 2;

  const Weight* Weights(int64_t r) const { return weight + r * weight_stride; }
  // Divides nothing where there is one query head.
  int64_t Head(int64_t r) const { return r < block ? 0 : r / block; }
  int64_t Query(int64_t r) const { return r - Head(r) * block; }
  float* Out(int64_t r) const { return out + Query(r) * query_stride + Head(r) * head_stride; }
  // How many weights rows [first, end) have at most.
  int64_t Depth(int64_t first, int64_t end) const {
    return own + (Head(first) == Head(end - 1) ? Query(end - 1) + 1 : block);
  }
  // Prefetches weights [offset, offset + depth) of rows [r, end): with many blocks they come from a
  // distant cache.
  void Prefetch(int64_t r, int64_t end, int64_t offset, int64_t depth) const {
    constexpr int64_t kLine = kPackLineBytes / static_cast<int64_t>(sizeof(Weight));
    for (end = std::min(end, count); r < end; ++r) {
      for (int64_t k = 0; k < depth; k += kLine) __builtin_prefetch(Weights(r) + offset + k);
    }
  }
};

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_QUERY_ROWS_H_
