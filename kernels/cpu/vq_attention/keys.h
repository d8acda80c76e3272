// What a query may attend to in one key/value head of one session.
#ifndef TVQ_KERNELS_CPU_VQ_ATTENTION_KEYS_H_
#define TVQ_KERNELS_CPU_VQ_ATTENTION_KEYS_H_

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "kernels/ops/attention/vq_attention.h"

namespace tvq {

// Runs of keys are padded to a multiple of the lanes of the widest vector.
inline constexpr int64_t kKeyPad = 16;
inline int64_t PadKeys(int64_t keys) { return (keys + kKeyPad - 1) / kKeyPad * kKeyPad; }

// Codes with n > 0 in increasing order, then positions, oldest first. The memory belongs to the
// caller: Bytes(most codes, most positions), 64-byte aligned.
struct AttentionKeys {
  int64_t live = 0;                // codes with n > 0
  int64_t recent = 0;              // positions
  int32_t* row = nullptr;          // [live | recent] codes, then slots of the window
  int32_t* recent_code = nullptr;  // [recent]
  float* count = nullptr;          // [live] n

  int64_t RecentOffset() const { return PadKeys(live); }
  int64_t Size() const { return PadKeys(live) + PadKeys(recent); }

  static int64_t MaxSize(int64_t codes, int64_t positions) {
    return PadKeys(codes) + PadKeys(positions);
  }
  static int64_t Bytes(int64_t codes, int64_t positions) {
    return 4 * (MaxSize(codes, positions) + PadKeys(positions) + PadKeys(codes));
  }

  // Keys of head g with the positions [first, end) in the window.
  static AttentionKeys Collect(const VqShape& shape, const VqState& state, int64_t g, int64_t first,
                               int64_t end, int64_t max_positions, void* memory);
};

inline AttentionKeys AttentionKeys::Collect(const VqShape& shape, const VqState& state, int64_t g,
                                            int64_t first, int64_t end, int64_t max_positions,
                                            void* memory) {
  AttentionKeys keys;
  keys.row = static_cast<int32_t*>(memory);
  keys.recent_code = keys.row + MaxSize(shape.codes, max_positions);
  keys.count = reinterpret_cast<float*>(keys.recent_code + PadKeys(max_positions));
  const int64_t* count = state.count + g * shape.codes;
  for (int64_t s = 0; s < shape.codes; ++s) {
    keys.row[keys.live] = static_cast<int32_t>(s);
    keys.count[keys.live] = static_cast<float>(count[s]);
    keys.live += count[s] > 0 ? 1 : 0;
  }
  for (int64_t k = keys.live; k < PadKeys(keys.live); ++k) {
    keys.row[k] = 0;
    keys.count[k] = 0;
  }
  const int32_t* window = state.window_code + g * shape.window;
  int32_t* slots = keys.row + keys.RecentOffset();
  for (int64_t position = first; position < end;) {
    const int64_t slot = position % shape.window;
    const int64_t run = std::min(end - position, shape.window - slot);
    std::iota(slots + keys.recent, slots + keys.recent + run, static_cast<int32_t>(slot));
    std::copy_n(window + slot, run, keys.recent_code + keys.recent);
    keys.recent += run;
    position += run;
  }
  std::fill(keys.recent_code + keys.recent, keys.recent_code + PadKeys(keys.recent), 0);
  return keys;
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_VQ_ATTENTION_KEYS_H_
