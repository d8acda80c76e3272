// Keeps what appending a position overwrites, so that the position can be taken back. It keeps
// bytes, also of the state's read copy (VqState), so the state is restored to the last bit.
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_UNDO_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_UNDO_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

inline int64_t KeyBytes(const VqShape& shape) {
  return shape.key * static_cast<int64_t>(SizeOf(shape.value_dtype));
}

// Calls move(of_state, kept, bytes) for every number of the key that `position` overwrites in head
// g. The op that scores overwrites the key, before attention overwrites anything else. In
// `state.undo` keys lie behind everything else that is kept of all heads.
template <typename Move>
void ForEachKeyNumber(const VqShape& shape, const VqState& state, int64_t g, int64_t position,
                      const Move& move) {
  const auto bytes = static_cast<int64_t>(SizeOf(shape.value_dtype));
  std::byte* const kept = static_cast<std::byte*>(state.undo) + VqUndoBytes(shape) -
                          (shape.kv_heads - g) * KeyBytes(shape);
  for (int64_t i = 0; i < shape.key; ++i) {
    std::byte* const number = static_cast<std::byte*>(state.window_key) +
                              shape.KeyIndex(g, position % shape.window, i) * bytes;
    move(number, kept + i * bytes, static_cast<size_t>(bytes));
  }
}

// Calls move(of_state, kept, bytes) for every piece of memory that appending `position` to head g
// overwrites, with its place in `state.undo`. The code in the slot comes first. After that move it
// is read from `state.undo`, to find the pieces of the accumulator.
template <typename Move>
void ForEachOverwritten(const VqShape& shape, const VqState& state, int64_t g, int64_t position,
                        const Move& move) {
  std::byte* const first = static_cast<std::byte*>(state.undo) +
                           g * (VqUndoBytes(shape) / shape.kv_heads - KeyBytes(shape));
  std::byte* next = first;
  const auto piece = [&](void* of_state, int64_t bytes) {
    move(static_cast<std::byte*>(of_state), next, static_cast<size_t>(bytes));
    next += bytes;
  };
  const bool copied = shape.read != VqRead::kExact;
  const auto value_bytes = shape.value * static_cast<int64_t>(SizeOf(shape.value_dtype));
  const int64_t slot = g * shape.window + position % shape.window;
  piece(state.window_code + slot, sizeof(int32_t));
  piece(static_cast<std::byte*>(state.window_value) + slot * value_bytes, value_bytes);
  if (copied) {
    piece(state.recent + slot * shape.value, shape.value);
    piece(state.recent_scale + slot * shape.scales(), 4 * shape.scales());
  }
  if (position < shape.window) return;
  int32_t retired;
  std::memcpy(&retired, first, sizeof(retired));
  const int64_t row = g * shape.codes + retired;
  piece(state.count + row, sizeof(int64_t));
  piece(state.sum + row * shape.value, 4 * shape.value);
  piece(state.carry + row * shape.value, 4 * shape.value);
  if (!copied) return;
  piece(state.mean + row * shape.value, shape.value);
  piece(state.mean_scale + row * shape.scales(), 4 * shape.scales());
}

inline void KeepKey(const VqShape& shape, const VqState& state, int64_t g, int64_t position) {
  if (state.undo == nullptr) return;
  ForEachKeyNumber(shape, state, g, position,
                   [](const std::byte* of_state, std::byte* kept, size_t bytes) {
                     std::memcpy(kept, of_state, bytes);
                   });
}

// Call this before `position` is appended to head g. Does nothing if the state has no `undo`.
inline void KeepOverwritten(const VqShape& shape, const VqState& state, int64_t g,
                            int64_t position) {
  if (state.undo == nullptr) return;
  ForEachOverwritten(shape, state, g, position,
                     [](const std::byte* of_state, std::byte* kept, size_t bytes) {
                       std::memcpy(kept, of_state, bytes);
                     });
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_UNDO_H_
