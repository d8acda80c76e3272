#include "kernels/ops/attention/head_scores.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
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

}  // namespace

absl::Status CheckArgs(const Device&, const PackHeadKeysArgs& args) {
  constexpr const char* kOp = "PackHeadKeys";
  if (args.packed == nullptr) return ArgumentError(kOp, "packed is missing");
  const Tensor<const float, 3>& keys = args.keys;
  if (*std::min_element(keys.shape.begin(), keys.shape.end()) <= 0) {
    return ArgumentError(kOp,
                         absl::StrCat("keys is [", keys.dim(0), ",", keys.dim(1), ",", keys.dim(2),
                                      "], expected [heads,rows,width], each above 0"));
  }
  return CheckShape(kOp, "keys", keys, keys.shape);
}

absl::Status CheckArgs(const Device&, const HeadScoresArgs& args) {
  return CheckHeadScores("HeadScores", args);
}

absl::Status CheckArgs(const Device&, const VqAssignArgs& args) {
  return CheckVqAssign("VqAssign", args);
}

absl::Status CheckArgs(const Device&, const VqScoresArgs& args) {
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

}  // namespace tvq
