#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"

namespace tvq {

const Backend& CpuBackend() {
  static constexpr Backend kBackend = {
      .name = "cpu",
      .embedding = CpuEmbedding,
      .rms_norm = CpuRmsNorm,
      .layer_norm = CpuLayerNorm,
      .pack_linear = CpuPackLinear,
      .linear = CpuLinear,
      .gated_output = CpuGatedOutput,
      .qkvg_projection = CpuQkvgProjection,
      .pack_head_keys = CpuPackHeadKeys,
      .head_scores = CpuHeadScores,
      .features = CpuFeatures,
      .turned_decode_scores = CpuTurnedDecodeScores,
      .turned_prefill_scores = CpuTurnedPrefillScores,
      .vq_assign = CpuVqAssign,
      .vq_scores = CpuVqScores,
      .vq_append = CpuVqAppend,
      .vq_take_back = CpuVqTakeBack,
      .vq_decode_attention = CpuVqDecodeAttention,
      .vq_prefill_attention = CpuVqPrefillAttention,
      .vq_collect = CpuVqCollect,
      .vq_encoder_attention = CpuVqEncoderAttention,
      .linear_decode_attention = CpuLinearDecodeAttention,
      .linear_prefill_attention = CpuLinearPrefillAttention,
      .softmax_decode_attention = CpuSoftmaxDecodeAttention,
      .softmax_prefill_attention = CpuSoftmaxPrefillAttention,
      .token_logprobs = CpuTokenLogprobs,
      .sample = CpuSample,
  };
  return kBackend;
}

}  // namespace tvq
