#include "kernels/ops/head_scores.h"

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckHeadScores(const HeadScoresArgs& args) {
  constexpr const char* kOp = "HeadScores";
  if (args.keys == nullptr) return ArgumentError(kOp, "keys are missing");
  const HeadKeys& keys = *args.keys;
  const int64_t rows = args.x.dim(0);
  const int64_t heads = args.x.dim(1);
  if (keys.heads <= 0 || heads % keys.heads != 0) {
    return ArgumentError(
        kOp,
        absl::StrCat("x has ", heads, " heads, expected a multiple of the keys' ", keys.heads));
  }
  return FirstError({
      CheckShape(kOp, "x", args.x, {rows, heads, keys.width}),
      CheckShape(kOp, "out", args.out, {rows, heads, keys.rows}),
  });
}

absl::Status CheckVqAssign(const VqAssignArgs& args) {
  constexpr const char* kOp = "VqAssign";
  if (args.codebook == nullptr) return ArgumentError(kOp, "codebook is missing");
  const HeadKeys& codebook = *args.codebook;
  const int64_t rows = args.k.dim(0);
  return FirstError({
      CheckShape(kOp, "k", args.k, {rows, codebook.heads, codebook.width}),
      CheckShape(kOp, "codes", args.codes, {rows, codebook.heads}),
  });
}

}  // namespace

absl::StatusOr<HeadKeys> PackHeadKeys(Device& device, Tensor<const float, 3> keys) {
  constexpr const char* kOp = "PackHeadKeys";
  const Backend& backend = device.functions();
  if (backend.pack_head_keys == nullptr) return MissingOp(kOp, backend.name);
  if (keys.size() <= 0) {
    return ArgumentError(kOp,
                         absl::StrCat("keys is [", keys.dim(0), ",", keys.dim(1), ",", keys.dim(2),
                                      "], expected [heads,rows,width], each above 0"));
  }
  const absl::Status status = CheckShape(kOp, "keys", keys, keys.shape);
  return status.ok() ? backend.pack_head_keys(device, keys) : status;
}

absl::Status HeadScores(Device& device, const HeadScoresArgs& args) {
  const Backend& backend = device.functions();
  if (backend.head_scores == nullptr) return MissingOp("HeadScores", backend.name);
  const absl::Status status = CheckHeadScores(args);
  return status.ok() ? backend.head_scores(device, args) : status;
}

absl::Status VqAssign(Device& device, const VqAssignArgs& args) {
  const Backend& backend = device.functions();
  if (backend.vq_assign == nullptr) return MissingOp("VqAssign", backend.name);
  const absl::Status status = CheckVqAssign(args);
  return status.ok() ? backend.vq_assign(device, args) : status;
}

}  // namespace tvq
