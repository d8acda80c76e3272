#include "server/startup/load_models.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "kernels/numbers/parse_dtype.h"
#include "models/runtime/begin_id.h"
#include "models/runtime/registry/registry.h"
#include "server/rpc/wire/sampling.h"
#include "server/startup/progress_bar.h"
#include "server/startup/readable_bytes.h"

namespace tvq {
namespace {

// What is not read exactly and whole.
std::string DescribeReads(const StateReads& reads) {
  std::string text;
  if (reads.int8) text += "; decode reads its values in int8";
  if (reads.skip_mass > 0) {
    absl::StrAppend(&text, "; decode leaves out softmax mass up to ", reads.skip_mass);
  }
  return text;
}

std::string DescribeGrowth(const ModelCapacity& capacity) {
  if (!capacity.grows) return "";
  std::string told = absl::StrCat(" at ", capacity.tokens, " tokens, less before");
  std::vector<std::string> sizes;
  sizes.reserve(capacity.sizes.size());
  for (const SessionSize& size : capacity.sizes) {
    sizes.push_back(absl::StrCat(ReadableBytes(size.bytes), " at ", size.tokens));
  }
  if (!sizes.empty()) {
    absl::StrAppend(&told, " (", ReadableBytes(capacity.bytes_per_token),
                    " a token: ", absl::StrJoin(sizes, ", "), ")");
  }
  return told;
}

// Null where the model writes no text, or no token ends one.
std::shared_ptr<Grammars> GrammarsOf(const Model& model) {
  std::vector<int32_t> ends = EndIds(model.info());
  const std::string_view type = model.tokenizer().type();
  if (ends.empty() || type == "pixels" || type == "ids") return nullptr;
  return std::make_shared<Grammars>(model.tokenizer(), std::move(ends));
}

}  // namespace

absl::StatusOr<std::vector<ServedModel>> LoadModels(const Flags& flags,
                                                    const std::shared_ptr<Device>& device) {
  const absl::StatusOr<DType> dtype = ParseDType(flags.dtype);
  if (!dtype.ok()) return dtype.status();
  std::optional<DType> state_dtype;
  if (!flags.state_dtype.empty()) {
    const absl::StatusOr<DType> parsed = ParseDType(flags.state_dtype);
    if (!parsed.ok()) return parsed.status();
    state_dtype = *parsed;
  }
  std::vector<ServedModel> models;
  for (const ModelFlag& flag : flags.models) {
    spdlog::info("loading {} from {}{}", flag.name, flag.dir,
                 flag.instead_of.empty() ? "" : ", in the place of " + flag.instead_of);
    ProgressBar bar(absl::StrCat("loading ", flag.name));
    LoadOptions options;
    options.device = device;
    options.dtype = *dtype;
    options.state_dtype = state_dtype;
    options.reads = {.int8 = flags.state_read_dtype == "int8",
                     .skip_mass = flags.attention_skip_mass};
    options.max_model_len = flags.max_model_len;
    options.draft_rows = flags.draft_tokens;
    options.default_fields = DefaultFields();
    options.progress = [&bar](int64_t done, int64_t total) { bar.Show(done, total); };
    absl::StatusOr<std::unique_ptr<Model>> model = LoadModel(flag.dir, options);
    if (!model.ok()) {
      return absl::Status(model.status().code(),
                          absl::StrCat("model ", flag.name, " from ", flag.dir, ": ",
                                       std::string(model.status().message())));
    }
    models.push_back({flag.name, *std::move(model)});
    models.back().grammars = GrammarsOf(*models.back().model);
  }
  return models;
}

std::string Describe(const ServedModel& served, const ModelCapacity& capacity) {
  const ModelInfo& info = served.model->info();
  const int64_t drafts = DraftRows(*served.model);
  return absl::StrFormat(
      "model %s: %s%s, %.2f M parameters, weights %s %s; a %s takes %s%s, %d fit%s%s", served.name,
      info.family, info.left_out.empty() ? "" : absl::StrCat(" (", info.left_out, ")"),
      static_cast<double>(info.parameters) / 1e6, Name(info.dtype),
      ReadableBytes(info.weight_bytes), info.predicts ? "session" : "text",
      ReadableBytes(capacity.bytes_per_session), DescribeGrowth(capacity), capacity.max_sessions,
      DescribeReads(info.reads),
      drafts > 0 ? absl::StrCat("; a step drafts up to ", drafts, " tokens") : "");
}

}  // namespace tvq
