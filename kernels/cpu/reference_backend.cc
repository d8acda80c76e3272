#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/reference_ops.h"

namespace tvq {

const Backend& ReferenceBackend() {
  static constexpr Backend kBackend = {
      .name = "reference",
      .embedding = ReferenceEmbedding,
      .rms_norm = ReferenceRmsNorm,
      .layer_norm = ReferenceLayerNorm,
      .pack_linear = ReferencePackLinear,
      .linear = ReferenceLinear,
      .gated_output = ReferenceGatedOutput,
      .qkvg_projection = ReferenceQkvgProjection,
      .pack_head_keys = ReferencePackHeadKeys,
      .head_scores = ReferenceHeadScores,
      .features = ReferenceFeatures,
      .turned_decode_scores = ReferenceTurnedDecodeScores,
      .turned_prefill_scores = ReferenceTurnedPrefillScores,
      .vq_assign = ReferenceVqAssign,
      .vq_scores = ReferenceVqScores,
      .vq_append = ReferenceVqAppend,
      .vq_take_back = CpuVqTakeBack,  // moves bytes
      .vq_decode_attention = ReferenceVqDecodeAttention,
      .vq_prefill_attention = ReferenceVqPrefillAttention,
      .vq_collect = ReferenceVqCollect,
      .vq_encoder_attention = ReferenceVqEncoderAttention,
      .linear_decode_attention = ReferenceLinearDecodeAttention,
      .linear_prefill_attention = ReferenceLinearPrefillAttention,
      .softmax_decode_attention = ReferenceSoftmaxDecodeAttention,
      .softmax_prefill_attention = ReferenceSoftmaxPrefillAttention,
      .token_logprobs = ReferenceTokenLogprobs,
      .sample = ReferenceSample,
  };
  return kBackend;
}

}  // namespace tvq
