#include "kernels/ops/embedding.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {

absl::Status CheckArgs(const Device&, const EmbeddingArgs& args) {
  constexpr const char* kEmbedding = "Embedding";
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

}  // namespace tvq
