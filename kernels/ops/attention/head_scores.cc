#include "kernels/ops/attention/head_scores.h"

#include "absl/strings/str_cat.h"
#include "kernels/device/backend.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

absl::Status CheckHeadScores(const char* op, const HeadScoresArgs& args) {
  if (args.keys == nullptr) return ArgumentError(op, "keys are missing");
  const HeadKeys& keys = *args.keys;
  const int64_t rows = args.x.dim(0);
  const int64_t heads = args.x.dim(1);
  if (keys.heads <= 0 || heads % keys.heads != 0) {
    return ArgumentError(
        op, absl::StrCat("x has ", heads, " heads, expected a multiple of the keys' ", keys.heads));
  }
  return FirstError({
      CheckShape(op, "x", args.x, {rows, heads, keys.width}),
      CheckShape(op, "out", args.out, {rows, heads, keys.rows}),
  });
}

absl::Status CheckVqAssign(const char* op, const VqAssignArgs& args) {
  if (args.codebook == nullptr) return ArgumentError(op, "codebook is missing");
  const HeadKeys& codebook = *args.codebook;
  const int64_t rows = args.k.dim(0);
  return FirstError({
      CheckShape(op, "k", args.k, {rows, codebook.heads, codebook.width}),
      CheckShape(op, "codes", args.codes, {rows, codebook.heads}),
  });
}

absl::Status CheckVqScores(const VqScoresArgs& args) {
  constexpr const char* kOp = "VqScores";
  const int64_t rows = args.code_scores.x.dim(0);
  if (args.assign.k.dim(0) != rows) {
    return ArgumentError(kOp, absl::StrCat("keys of ", args.assign.k.dim(0),
                                           " rows and queries of ", rows, ", expected as many"));
  }
  if (args.scores_positions() && args.position_scores.x.dim(0) != rows) {
    return ArgumentError(kOp, absl::StrCat("positions of ", args.position_scores.x.dim(0),
                                           " rows and codes of ", rows, ", expected as many"));
  }
  return FirstError({
      CheckHeadScores("VqScores, code_scores", args.code_scores),
      args.scores_positions() ? CheckHeadScores("VqScores, position_scores", args.position_scores)
                              : absl::OkStatus(),
      CheckVqAssign("VqScores, assign", args.assign),
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
  const absl::Status status = CheckHeadScores("HeadScores", args);
  return status.ok() ? backend.head_scores(device, args) : status;
}

absl::Status VqAssign(Device& device, const VqAssignArgs& args) {
  const Backend& backend = device.functions();
  if (backend.vq_assign == nullptr) return MissingOp("VqAssign", backend.name);
  const absl::Status status = CheckVqAssign("VqAssign", args);
  return status.ok() ? backend.vq_assign(device, args) : status;
}

absl::Status VqScores(Device& device, const VqScoresArgs& args) {
  const Backend& backend = device.functions();
  if (backend.vq_scores == nullptr) return MissingOp("VqScores", backend.name);
  const absl::Status status = CheckVqScores(args);
  return status.ok() ? backend.vq_scores(device, args) : status;
}

}  // namespace tvq
