// The list of the ops. Everything that is declared of each op comes from this list: the function
// that models call, declared below and defined in ops.cc, the check of its arguments (check.h), the
// entry in the table of a backend's functions (backend.h), and the backend's own function in that
// entry.
//
// An op Name takes a device and a struct of arguments, NameArgs, which the op's header has.
#ifndef TVQ_KERNELS_OPS_OPS_H_
#define TVQ_KERNELS_OPS_OPS_H_

#include "absl/status/status.h"
#include "kernels/device/device.h"

// Lines are OP(entry, Name, further arguments of the list). The ops of every backend ...
#define TVQ_COMMON_OPS(OP, ...)                                       \
  OP(embedding, Embedding, __VA_ARGS__)                               \
  OP(norm_rows, NormRows, __VA_ARGS__)                                \
  OP(pack_rows, PackRows, __VA_ARGS__)                                \
  OP(linear, Linear, __VA_ARGS__)                                     \
  OP(gated_output, GatedOutput, __VA_ARGS__)                          \
  OP(qkvg_projection, QkvgProjection, __VA_ARGS__)                    \
  OP(rotary_angles, RotaryAngles, __VA_ARGS__)                        \
  OP(position_rows, PositionRows, __VA_ARGS__)                        \
  OP(rotary_heads, RotaryHeads, __VA_ARGS__)                          \
  OP(pack_head_keys, PackHeadKeys, __VA_ARGS__)                       \
  OP(head_scores, HeadScores, __VA_ARGS__)                            \
  OP(features, Features, __VA_ARGS__)                                 \
  OP(turned_decode_scores, TurnedDecodeScores, __VA_ARGS__)           \
  OP(turned_prefill_scores, TurnedPrefillScores, __VA_ARGS__)         \
  OP(ring_decode_scores, RingDecodeScores, __VA_ARGS__)               \
  OP(ring_prefill_scores, RingPrefillScores, __VA_ARGS__)             \
  OP(kept_keys, KeptKeys, __VA_ARGS__)                                \
  OP(vq_assign, VqAssign, __VA_ARGS__)                                \
  OP(vq_scores, VqScores, __VA_ARGS__)                                \
  OP(vq_decode_attention, VqDecodeAttention, __VA_ARGS__)             \
  OP(vq_prefill_attention, VqPrefillAttention, __VA_ARGS__)           \
  OP(linear_decode_attention, LinearDecodeAttention, __VA_ARGS__)     \
  OP(linear_prefill_attention, LinearPrefillAttention, __VA_ARGS__)   \
  OP(softmax_decode_attention, SoftmaxDecodeAttention, __VA_ARGS__)   \
  OP(softmax_prefill_attention, SoftmaxPrefillAttention, __VA_ARGS__) \
  OP(token_shift, TokenShift, __VA_ARGS__)                            \
  OP(causal_convolution, CausalConvolution, __VA_ARGS__)              \
  OP(rwkv_time_mix, RwkvTimeMix, __VA_ARGS__)                         \
  OP(gated_delta_rule, GatedDeltaRule, __VA_ARGS__)                   \
  OP(mamba_scan, MambaScan, __VA_ARGS__)                              \
  OP(token_logprobs, TokenLogprobs, __VA_ARGS__)                      \
  OP(sample, Sample, __VA_ARGS__)
// ... and those of the CPU alone.
#define TVQ_CPU_OPS(OP, ...)                \
  OP(vq_take_back, VqTakeBack, __VA_ARGS__) \
  OP(vq_collect, VqCollect, __VA_ARGS__)    \
  OP(vq_encoder_attention, VqEncoderAttention, __VA_ARGS__)
#define TVQ_OPS(OP, ...)          \
  TVQ_COMMON_OPS(OP, __VA_ARGS__) \
  TVQ_CPU_OPS(OP, __VA_ARGS__)

// Macros to pass to a list as OP: they declare functions PrefixName, and make their entries in a
// table.
#define TVQ_DECLARE_OP(entry, Name, Prefix) \
  absl::Status Prefix##Name(Device& device, const struct Name##Args& args);
#define TVQ_ENTRY_OF_OP(entry, Name, Prefix) .entry = Prefix##Name,
#define TVQ_DECLARE_SUPPORT(entry, Name, ...) \
  template <>                                 \
  bool Supports<struct Name##Args>(const Device& device);

namespace tvq {

// INVALID_ARGUMENT, naming op and argument, when shapes or types disagree; UNIMPLEMENTED when the
// device's backend has no such op.
TVQ_OPS(TVQ_DECLARE_OP, )

// Whether the device's backend has the op of these arguments.
template <typename Args>
bool Supports(const Device& device);
TVQ_OPS(TVQ_DECLARE_SUPPORT, )

}  // namespace tvq

#endif  // TVQ_KERNELS_OPS_OPS_H_
