#include "kernels/ops/sample.h"

#include "absl/strings/str_cat.h"
#include "kernels/ops/check.h"

namespace tvq {
namespace {

constexpr const char* kSample = "Sample";

absl::Status CheckId(const char* what, int32_t id, int64_t vocab) {
  if (id >= 0 && id < vocab) return absl::OkStatus();
  return ArgumentError(kSample,
                       absl::StrCat(what, " holds id ", id, ", expected 0 to ", vocab - 1));
}

absl::Status CheckRow(const SampleArgs& args, const SampleRow& row) {
  const int64_t vocab = args.logits.dim(1);
  if (row.logits_row < 0 || row.logits_row >= args.logits.dim(0)) {
    return ArgumentError(kSample, absl::StrCat("logits_row is ", row.logits_row, ", expected 0 to ",
                                               args.logits.dim(0) - 1));
  }
  if (row.top_logprobs > args.max_top) {
    return ArgumentError(kSample, absl::StrCat("top_logprobs is ", row.top_logprobs,
                                               ", expected max_top at most, ", args.max_top));
  }
  // Written so that NaN fails.
  if (!(row.temperature >= 0) || !(row.repetition_penalty > 0)) {
    return ArgumentError(
        kSample, absl::StrCat("temperature is ", row.temperature, " and repetition_penalty ",
                              row.repetition_penalty, ", expected 0 or more and above 0"));
  }
  for (const TokenCount& count : row.counts) {
    if (absl::Status status = CheckId("counts", count.id, vocab); !status.ok()) return status;
  }
  for (const LogitBias& bias : row.logit_bias) {
    if (absl::Status status = CheckId("logit_bias", bias.id, vocab); !status.ok()) return status;
  }
  for (const int32_t id : row.allowed_ids) {
    if (absl::Status status = CheckId("allowed_ids", id, vocab); !status.ok()) return status;
  }
  if (!row.mask.empty()) {
    absl::Status status = CheckSize(kSample, "mask", row.mask.size(), MaskWords(vocab));
    if (!status.ok()) return status;
  }
  for (const int32_t id : row.banned_ids) {
    if (absl::Status status = CheckId("banned_ids", id, vocab); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckArgs(const Device&, const SampleArgs& args) {
  const auto rows = static_cast<int64_t>(args.rows.size());
  if (args.max_top < 0 || args.max_top > args.logits.dim(1)) {
    return ArgumentError(
        kSample, absl::StrCat("max_top is ", args.max_top, ", expected 0 to ", args.logits.dim(1)));
  }
  absl::Status status = FirstError({
      CheckShape(kSample, "logits", args.logits, args.logits.shape),
      CheckSize(kSample, "chosen", args.chosen.size(), rows),
      CheckSize(kSample, "top", args.top.size(), rows * args.max_top),
      CheckSize(kSample, "row_status", args.row_status.size(), rows),
  });
  for (size_t n = 0; status.ok() && n < args.rows.size(); ++n)
    status = CheckRow(args, args.rows[n]);
  return status;
}

}  // namespace tvq
