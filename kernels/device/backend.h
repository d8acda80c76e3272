// The table of functions of a backend: an entry per op. ops/*.cc check shapes and dtypes once, then
// call through the table; a backend's functions may assume what was checked. A missing entry is
// UNIMPLEMENTED.
#ifndef TVQ_KERNELS_DEVICE_BACKEND_H_
#define TVQ_KERNELS_DEVICE_BACKEND_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/device.h"
#include "kernels/ops/attention/features.h"
#include "kernels/ops/attention/head_scores.h"
#include "kernels/ops/attention/linear_attention.h"
#include "kernels/ops/attention/softmax_attention.h"
#include "kernels/ops/attention/turned_scores.h"
#include "kernels/ops/attention/vq_attention.h"
#include "kernels/ops/attention/vq_encoder.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/layer_norm.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/qkvg_projection.h"
#include "kernels/ops/rms_norm.h"
#include "kernels/ops/sample.h"
#include "kernels/ops/token_logprobs.h"

namespace tvq {

struct Backend {
  const char* name = "";
  absl::Status (*embedding)(Device&, const EmbeddingArgs&) = nullptr;
  absl::Status (*rms_norm)(Device&, const RmsNormArgs&) = nullptr;
  absl::Status (*layer_norm)(Device&, const LayerNormArgs&) = nullptr;
  // Not the scales of int8, which are alike everywhere; the matrices have them.
  absl::StatusOr<LinearWeight> (*pack_linear)(Device&, std::span<const HostMatrix>,
                                              DType) = nullptr;
  absl::Status (*linear)(Device&, const LinearArgs&) = nullptr;
  absl::Status (*gated_output)(Device&, const GatedOutputArgs&) = nullptr;
  absl::Status (*qkvg_projection)(Device&, const QkvgProjectionArgs&) = nullptr;
  absl::StatusOr<HeadKeys> (*pack_head_keys)(Device&, Tensor<const float, 3>) = nullptr;
  absl::Status (*head_scores)(Device&, const HeadScoresArgs&) = nullptr;
  absl::Status (*features)(Device&, const FeaturesArgs&) = nullptr;
  absl::Status (*turned_decode_scores)(Device&, const TurnedDecodeScoresArgs&) = nullptr;
  absl::Status (*turned_prefill_scores)(Device&, const TurnedPrefillScoresArgs&) = nullptr;
  absl::Status (*vq_assign)(Device&, const VqAssignArgs&) = nullptr;
  absl::Status (*vq_scores)(Device&, const VqScoresArgs&) = nullptr;
  absl::Status (*vq_append)(Device&, const VqAppendArgs&) = nullptr;
  absl::Status (*vq_take_back)(Device&, const VqTakeBackArgs&) = nullptr;
  absl::Status (*vq_decode_attention)(Device&, const VqDecodeAttentionArgs&) = nullptr;
  absl::Status (*vq_prefill_attention)(Device&, const VqPrefillAttentionArgs&) = nullptr;
  absl::Status (*vq_collect)(Device&, const VqCollectArgs&) = nullptr;
  absl::Status (*vq_encoder_attention)(Device&, const VqEncoderAttentionArgs&) = nullptr;
  absl::Status (*linear_decode_attention)(Device&, const LinearDecodeAttentionArgs&) = nullptr;
  absl::Status (*linear_prefill_attention)(Device&, const LinearPrefillAttentionArgs&) = nullptr;
  absl::Status (*softmax_decode_attention)(Device&, const SoftmaxDecodeAttentionArgs&) = nullptr;
  absl::Status (*softmax_prefill_attention)(Device&, const SoftmaxPrefillAttentionArgs&) = nullptr;
  absl::Status (*token_logprobs)(Device&, const TokenLogprobsArgs&) = nullptr;
  absl::Status (*sample)(Device&, const SampleArgs&) = nullptr;
};

}  // namespace tvq

#endif  // TVQ_KERNELS_DEVICE_BACKEND_H_
