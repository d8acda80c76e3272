// The functions in this backend's table (kernels/device/backend.h).
#ifndef TVQ_KERNELS_CUDA_CUDA_OPS_H_
#define TVQ_KERNELS_CUDA_CUDA_OPS_H_

#include "kernels/cuda/platform.h"
#include "kernels/device/backend.h"

namespace tvq::TVQ_CUDA {

absl::Status CudaEmbedding(Device& device, const EmbeddingArgs& args);
absl::Status CudaRmsNorm(Device& device, const RmsNormArgs& args);
absl::Status CudaLayerNorm(Device& device, const LayerNormArgs& args);
absl::StatusOr<LinearWeight> CudaPackLinear(Device& device, std::span<const HostMatrix> parts,
                                            DType dtype);
absl::Status CudaLinear(Device& device, const LinearArgs& args);
absl::Status CudaGatedOutput(Device& device, const GatedOutputArgs& args);
absl::Status CudaQkvgProjection(Device& device, const QkvgProjectionArgs& args);
absl::StatusOr<HeadKeys> CudaPackHeadKeys(Device& device, Tensor<const float, 3> keys);
absl::Status CudaHeadScores(Device& device, const HeadScoresArgs& args);
absl::Status CudaFeatures(Device& device, const FeaturesArgs& args);
absl::Status CudaTurnedDecodeScores(Device& device, const TurnedDecodeScoresArgs& args);
absl::Status CudaTurnedPrefillScores(Device& device, const TurnedPrefillScoresArgs& args);
absl::Status CudaVqAssign(Device& device, const VqAssignArgs& args);
absl::Status CudaVqScores(Device& device, const VqScoresArgs& args);
absl::Status CudaVqAppend(Device& device, const VqAppendArgs& args);
absl::Status CudaVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args);
absl::Status CudaVqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args);
absl::Status CudaLinearDecodeAttention(Device& device, const LinearDecodeAttentionArgs& args);
absl::Status CudaLinearPrefillAttention(Device& device, const LinearPrefillAttentionArgs& args);
absl::Status CudaSoftmaxDecodeAttention(Device& device, const SoftmaxDecodeAttentionArgs& args);
absl::Status CudaSoftmaxPrefillAttention(Device& device, const SoftmaxPrefillAttentionArgs& args);
absl::Status CudaTokenLogprobs(Device& device, const TokenLogprobsArgs& args);
absl::Status CudaSample(Device& device, const SampleArgs& args);

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_CUDA_OPS_H_
