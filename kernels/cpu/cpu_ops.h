// The CPU backend's functions, in the order of `Backend`. Shapes and dtypes have been checked by
// kernels/ops; the device is a CpuDevice.
#ifndef TVQ_KERNELS_CPU_CPU_OPS_H_
#define TVQ_KERNELS_CPU_CPU_OPS_H_

#include "kernels/device/backend.h"

namespace tvq {

absl::Status CpuEmbedding(Device& device, const EmbeddingArgs& args);
absl::Status CpuRmsNorm(Device& device, const RmsNormArgs& args);
absl::Status CpuLayerNorm(Device& device, const LayerNormArgs& args);
absl::StatusOr<LinearWeight> CpuPackLinear(Device& device, std::span<const HostMatrix> parts,
                                           DType dtype);
absl::Status CpuLinear(Device& device, const LinearArgs& args);
absl::Status CpuGatedOutput(Device& device, const GatedOutputArgs& args);
absl::Status CpuQkvgProjection(Device& device, const QkvgProjectionArgs& args);
absl::StatusOr<HeadKeys> CpuPackHeadKeys(Device& device, Tensor<const float, 3> keys);
absl::Status CpuHeadScores(Device& device, const HeadScoresArgs& args);
absl::Status CpuFeatures(Device& device, const FeaturesArgs& args);
absl::Status CpuTurnedDecodeScores(Device& device, const TurnedDecodeScoresArgs& args);
absl::Status CpuTurnedPrefillScores(Device& device, const TurnedPrefillScoresArgs& args);
absl::Status CpuVqAssign(Device& device, const VqAssignArgs& args);
absl::Status CpuVqScores(Device& device, const VqScoresArgs& args);
absl::Status CpuVqAppend(Device& device, const VqAppendArgs& args);
absl::Status CpuVqTakeBack(Device& device, const VqTakeBackArgs& args);
absl::Status CpuVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args);
absl::Status CpuVqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args);
absl::Status CpuVqCollect(Device& device, const VqCollectArgs& args);
absl::Status CpuVqEncoderAttention(Device& device, const VqEncoderAttentionArgs& args);
absl::Status CpuLinearDecodeAttention(Device& device, const LinearDecodeAttentionArgs& args);
absl::Status CpuLinearPrefillAttention(Device& device, const LinearPrefillAttentionArgs& args);
absl::Status CpuSoftmaxDecodeAttention(Device& device, const SoftmaxDecodeAttentionArgs& args);
absl::Status CpuSoftmaxPrefillAttention(Device& device, const SoftmaxPrefillAttentionArgs& args);
absl::Status CpuTokenLogprobs(Device& device, const TokenLogprobsArgs& args);
absl::Status CpuSample(Device& device, const SampleArgs& args);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_CPU_OPS_H_
