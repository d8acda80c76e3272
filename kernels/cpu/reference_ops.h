// Naive float64 loops, the oracle of the tests, in the order of `Backend`. Packed weights and keys
// lie row-major as they came. Shapes and dtypes have been checked by kernels/ops; the device is a
// CpuDevice.
#ifndef TVQ_KERNELS_CPU_REFERENCE_OPS_H_
#define TVQ_KERNELS_CPU_REFERENCE_OPS_H_

#include "kernels/device/backend.h"

namespace tvq {

absl::Status ReferenceEmbedding(Device& device, const EmbeddingArgs& args);
absl::Status ReferenceRmsNorm(Device& device, const RmsNormArgs& args);
absl::Status ReferenceLayerNorm(Device& device, const LayerNormArgs& args);
absl::StatusOr<LinearWeight> ReferencePackLinear(Device& device, std::span<const HostMatrix> parts,
                                                 DType dtype);
absl::Status ReferenceLinear(Device& device, const LinearArgs& args);
absl::Status ReferenceGatedOutput(Device& device, const GatedOutputArgs& args);
absl::Status ReferenceQkvgProjection(Device& device, const QkvgProjectionArgs& args);
absl::StatusOr<HeadKeys> ReferencePackHeadKeys(Device& device, Tensor<const float, 3> keys);
absl::Status ReferenceHeadScores(Device& device, const HeadScoresArgs& args);
absl::Status ReferenceFeatures(Device& device, const FeaturesArgs& args);
absl::Status ReferenceTurnedDecodeScores(Device& device, const TurnedDecodeScoresArgs& args);
absl::Status ReferenceTurnedPrefillScores(Device& device, const TurnedPrefillScoresArgs& args);
absl::Status ReferenceVqAssign(Device& device, const VqAssignArgs& args);
absl::Status ReferenceVqScores(Device& device, const VqScoresArgs& args);
absl::Status ReferenceVqAppend(Device& device, const VqAppendArgs& args);
absl::Status ReferenceVqDecodeAttention(Device& device, const VqDecodeAttentionArgs& args);
absl::Status ReferenceVqPrefillAttention(Device& device, const VqPrefillAttentionArgs& args);
absl::Status ReferenceVqCollect(Device& device, const VqCollectArgs& args);
absl::Status ReferenceVqEncoderAttention(Device& device, const VqEncoderAttentionArgs& args);
absl::Status ReferenceLinearDecodeAttention(Device& device, const LinearDecodeAttentionArgs& args);
absl::Status ReferenceLinearPrefillAttention(Device& device,
                                             const LinearPrefillAttentionArgs& args);
absl::Status ReferenceSoftmaxDecodeAttention(Device& device,
                                             const SoftmaxDecodeAttentionArgs& args);
absl::Status ReferenceSoftmaxPrefillAttention(Device& device,
                                              const SoftmaxPrefillAttentionArgs& args);
absl::Status ReferenceTokenLogprobs(Device& device, const TokenLogprobsArgs& args);
absl::Status ReferenceSample(Device& device, const SampleArgs& args);

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_REFERENCE_OPS_H_
