#include "kernels/ops/embedding.h"

#include "absl/strings/str_cat.h"
#include "kernels/device/backend.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr const char* kEmbedding = "Embedding";

absl::Status Check(const EmbeddingArgs& args) {
  const int64_t rows = args.ids.dim(0);
  const int64_t width = args.out.dim(1);
  if (args.table == nullptr && rows > 0) return ArgumentError(kEmbedding, "table has no data");
  if (args.dtype == DType::kInt4) {
    return ArgumentError(kEmbedding, "table is int4, expected float32, bfloat16 or int8");
  }
  if (args.position_scale != 0 && width % 2 != 0) {
    return ArgumentError(
        kEmbedding,
        absl::StrCat("out has ", width, " columns, expected an even number for a sinusoid"));
  }
  return FirstError({
      args.dtype == DType::kInt8 ? CheckShape(kEmbedding, "scales", args.scales, {args.vocab})
                                 : absl::OkStatus(),
      CheckShape(kEmbedding, "ids", args.ids, {rows}),
      CheckShape(kEmbedding, "out", args.out, {rows, width}),
      args.position_scale == 0 ? absl::OkStatus()
                               : CheckShape(kEmbedding, "positions", args.positions, {rows}),
  });
}

}  // namespace

absl::Status Embedding(Device& device, const EmbeddingArgs& args) {
  if (absl::Status status = Check(args); !status.ok()) return status;
  const Backend& backend = device.functions();
  if (backend.embedding == nullptr) return MissingOp(kEmbedding, backend.name);
  return backend.embedding(device, args);
}

}  // namespace tvq
