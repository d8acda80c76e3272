#include "kernels/ops/qkvg_projection.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr const char* kQkvgProjection = "QkvgProjection";

absl::Status CheckWeight(const QkvgProjectionArgs& args) {
  if (args.weight == nullptr) return ArgumentError(kQkvgProjection, "weight is missing");
  const int64_t heads = args.q_u.dim(1);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t gates = args.gated() ? heads : 0;
  const int64_t rows = (heads + kv_heads) * args.q_u.dim(2) + (kv_heads + gates) * args.v.dim(2);
  if (args.weight->out != rows || args.weight->in != args.x.dim(1)) {
    return ArgumentError(
        kQkvgProjection,
        absl::StrCat("weight is [", args.weight->out, ",", args.weight->in, "], expected [", rows,
                     ",", args.x.dim(1), "] (rows of q, k, v", args.gated() ? " and g)" : ")"));
  }
  return absl::OkStatus();
}

absl::Status CheckQueries(const QkvgProjectionArgs& args) {
  const int64_t n = args.x.dim(0);
  const int64_t heads = args.q_u.dim(1);
  const int64_t key = args.q_u.dim(2);
  if (args.plain_heads || !args.biased()) {
    if (args.u.empty() && args.w.empty() && args.q_w.empty()) return absl::OkStatus();
    return ArgumentError(kQkvgProjection,
                         "u, w and q_w are expected all empty, or none, with normed heads");
  }
  return FirstError({
      CheckShape(kQkvgProjection, "u", args.u, {heads, key}),
      CheckShape(kQkvgProjection, "w", args.w, {heads, key}),
      CheckShape(kQkvgProjection, "q_w", args.q_w, {n, heads, key}),
  });
}

}  // namespace

absl::Status CheckArgs(const Device&, const QkvgProjectionArgs& args) {
  const int64_t n = args.x.dim(0);
  const int64_t d = args.x.dim(1);
  const int64_t heads = args.q_u.dim(1);
  const int64_t key = args.q_u.dim(2);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t value = args.v.dim(2);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    return ArgumentError(kQkvgProjection,
                         absl::StrCat("q_u has ", heads, " heads, expected a multiple of the ",
                                      kv_heads, " heads of k"));
  }
  return FirstError({
      CheckWeight(args),
      CheckChunk(kQkvgProjection, n, args.chunk_rows),
      CheckShape(kQkvgProjection, "x", args.x, {n, d}),
      CheckShape(kQkvgProjection, "gain", args.gain, {d}),
      CheckShape(kQkvgProjection, "bias", args.bias, {d}),
      CheckQueries(args),
      CheckShape(kQkvgProjection, "q_u", args.q_u, {n, heads, key}),
      CheckShape(kQkvgProjection, "k", args.k, {n, kv_heads, key}),
      CheckShape(kQkvgProjection, "v", args.v, {n, kv_heads, value}),
      args.gated() ? CheckShape(kQkvgProjection, "g", args.g, {n, heads, value}) : absl::OkStatus(),
  });
}

}  // namespace tvq
