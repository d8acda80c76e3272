#include "kernels/ops/qkvg_projection.h"

#include "absl/strings/str_cat.h"
#include "kernels/backend.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr const char* kOp = "QkvgProjection";

absl::Status CheckWeight(const QkvgProjectionArgs& args) {
  if (args.weight == nullptr) return ArgumentError(kOp, "weight is missing");
  const int64_t key = args.u.dim(1);
  const int64_t value = args.g.dim(2);
  const int64_t rows = (args.u.dim(0) + args.k.dim(1)) * (key + value);
  if (args.weight->out != rows || args.weight->in != args.x.dim(1)) {
    return ArgumentError(
        kOp, absl::StrCat("weight is [", args.weight->out, ",", args.weight->in, "], expected [",
                          rows, ",", args.x.dim(1), "] (rows of q, k, v and g)"));
  }
  return absl::OkStatus();
}

absl::Status Check(const QkvgProjectionArgs& args) {
  const int64_t n = args.x.dim(0);
  const int64_t d = args.x.dim(1);
  const int64_t heads = args.u.dim(0);
  const int64_t key = args.u.dim(1);
  const int64_t kv_heads = args.k.dim(1);
  const int64_t value = args.g.dim(2);
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0) {
    return ArgumentError(kOp, absl::StrCat("u has ", heads, " heads, expected a multiple of the ",
                                           kv_heads, " heads of k"));
  }
  return FirstError({
      CheckWeight(args),
      CheckChunk(kOp, n, args.chunk_rows),
      CheckShape(kOp, "x", args.x, {n, d}),
      CheckShape(kOp, "gain", args.gain, {d}),
      CheckShape(kOp, "bias", args.bias, {d}),
      CheckShape(kOp, "u", args.u, {heads, key}),
      CheckShape(kOp, "w", args.w, {heads, key}),
      CheckShape(kOp, "q_u", args.q_u, {n, heads, key}),
      CheckShape(kOp, "q_w", args.q_w, {n, heads, key}),
      CheckShape(kOp, "k", args.k, {n, kv_heads, key}),
      CheckShape(kOp, "v", args.v, {n, kv_heads, value}),
      CheckShape(kOp, "g", args.g, {n, heads, value}),
  });
}

}  // namespace

absl::Status QkvgProjection(Device& device, const QkvgProjectionArgs& args) {
  if (absl::Status status = Check(args); !status.ok()) return status;
  const Backend& backend = device.functions();
  if (backend.qkvg_projection == nullptr) return MissingOp(kOp, backend.name);
  return backend.qkvg_projection(device, args);
}

}  // namespace tvq
