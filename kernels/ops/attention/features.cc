#include "kernels/ops/attention/features.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr const char* kFeatures = "Features";

absl::Status CheckRows(const FeaturesArgs& args) {
  const int64_t n = args.x.dim(0), heads = args.x.dim(1), key = args.x.dim(2);
  if (args.map == FeatureMap::kEluPlusOne) {
    if (args.rows != nullptr)
      return ArgumentError(kFeatures, "rows are expected null: elu has none");
    return CheckShape(kFeatures, "out", args.out, {n, heads, key});
  }
  if (args.rows == nullptr) return ArgumentError(kFeatures, "rows are missing");
  if (heads % args.rows->heads != 0) {
    return ArgumentError(kFeatures,
                         absl::StrCat("x has ", heads, " heads, expected a multiple of the ",
                                      args.rows->heads, " of rows"));
  }
  return FirstError({CheckShape(kFeatures, "x", args.x, {n, heads, args.rows->width}),
                     CheckShape(kFeatures, "out", args.out, {n, heads, args.rows->rows})});
}

}  // namespace

absl::Status CheckArgs(const Device&, const FeaturesArgs& args) {
  const bool width = std::isfinite(args.sigma) && args.sigma > 0;
  if (args.map == FeatureMap::kSoftAssignment && !width) {
    return ArgumentError(kFeatures,
                         absl::StrCat("sigma is ", args.sigma, ", expected above 0 and finite"));
  }
  return FirstError({CheckShape(kFeatures, "x", args.x, args.x.shape), CheckRows(args)});
}

}  // namespace tvq
