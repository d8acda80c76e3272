#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_ops.h"

namespace tvq::TVQ_CUDA {

const Backend& CudaBackend() {
  static constexpr Backend kBackend = {
      .name = "cuda",
      .embedding = CudaEmbedding,
      .rms_norm = CudaRmsNorm,
      .layer_norm = CudaLayerNorm,
      .pack_linear = CudaPackLinear,
      .linear = CudaLinear,
      .gated_output = CudaGatedOutput,
      .qkvg_projection = CudaQkvgProjection,
      .pack_head_keys = CudaPackHeadKeys,
      .head_scores = CudaHeadScores,
      .features = CudaFeatures,
      .turned_decode_scores = CudaTurnedDecodeScores,
      .turned_prefill_scores = CudaTurnedPrefillScores,
      .vq_assign = CudaVqAssign,
      .vq_scores = CudaVqScores,
      .vq_append = CudaVqAppend,
      .vq_decode_attention = CudaVqDecodeAttention,
      .vq_prefill_attention = CudaVqPrefillAttention,
      .linear_decode_attention = CudaLinearDecodeAttention,
      .linear_prefill_attention = CudaLinearPrefillAttention,
      .softmax_decode_attention = CudaSoftmaxDecodeAttention,
      .softmax_prefill_attention = CudaSoftmaxPrefillAttention,
      .token_logprobs = CudaTokenLogprobs,
      .sample = CudaSample,
  };
  return kBackend;
}

}  // namespace tvq::TVQ_CUDA
