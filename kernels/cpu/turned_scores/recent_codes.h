// Finds the codes of the positions that a row looks back to: of the nearest ones in the rows of the
// same call, of the others in the window of the state.
#ifndef TVQ_KERNELS_CPU_TURNED_SCORES_RECENT_CODES_H_
#define TVQ_KERNELS_CPU_TURNED_SCORES_RECENT_CODES_H_

#include <algorithm>

#include "kernels/ops/attention/turned_scores.h"

namespace tvq {

// The codes that one row looks back to; the row is at `position`.
struct RecentCodes {
  const VqShape* shape = nullptr;
  VqState state;
  int64_t position = 0;
  const int32_t* codes =
      nullptr;              // [G] of the row; those of the call's earlier rows lie before them
  int64_t rows_before = 0;  // in the call

  // The distances that exist are 0 to Count() - 1.
  int64_t Count() const { return std::min(position + 1, shape->window); }

  int32_t At(int64_t g, int64_t distance) const {
    if (distance <= rows_before) return codes[g - distance * shape->kv_heads];
    return state.window_code[g * shape->window + (position - distance) % shape->window];
  }
};

inline RecentCodes RowOf(const TurnedDecodeScoresArgs& args, int64_t n) {
  const VqState& state = args.states.data[n];
  int64_t before = 0;
  while (before < n && args.states.data[n - before - 1].sum == state.sum) ++before;
  return {&args.keys.shape, state, args.positions.data[n], args.codes.row(n), before};
}

inline RecentCodes RowOf(const TurnedPrefillScoresArgs& args, int64_t t) {
  return {&args.keys.shape, args.state, args.position + t, args.codes.row(t), t};
}

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_TURNED_SCORES_RECENT_CODES_H_
