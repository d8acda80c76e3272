// tvq draw: images of a model whose tokens are pixels, as a PNG file.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/output_file.h"
#include "client/cli/command.h"
#include "client/cli/io/input.h"
#include "client/cli/io/picture.h"

namespace tvq::cli {
namespace {

struct DrawOptions {
  std::string model;
  std::string out;
  std::string complete;
  std::optional<int32_t> rows;
  int32_t count = 1;
  int32_t columns = 0;  // 0: as square as may be
  SheetOptions sheet;
  std::optional<float> temperature, top_p;
  std::optional<int32_t> top_k;
  std::optional<uint64_t> seed;
};

// The ids of the rows that are given.
absl::StatusOr<std::vector<int32_t>> GivenRows(const DrawOptions& options,
                                               const v1::ImageShape& shape) {
  if (options.complete.empty()) return std::vector<int32_t>();
  const int32_t rows = options.rows.value_or(shape.height() / 2);
  if (rows < 0 || rows >= shape.height()) {
    return absl::InvalidArgumentError(absl::StrCat("--rows: is ", rows, ", must be from 0 to ",
                                                   shape.height() - 1, "; the model's images have ",
                                                   shape.height(), ", one must be left"));
  }
  std::string bytes;
  if (const absl::Status status = ReadInput(options.complete, &bytes, "PNG file", Content::kBinary);
      !status.ok()) {
    return status;
  }
  const std::string name = InputName(options.complete);
  const auto bitmap = DecodePng(bytes, name);
  if (!bitmap.ok()) return bitmap.status();
  return TokensOf(*bitmap, shape, rows, name);
}

// As many tokens as the image lacks, all of them levels.
v1::GenerateRequest MakeRequest(const DrawOptions& options, const v1::Model& model,
                                const std::vector<int32_t>& given) {
  const v1::ImageShape& shape = model.image();
  v1::GenerateRequest request;
  request.set_model(model.name());
  auto* prompt = request.mutable_token_ids()->mutable_ids();
  if (model.has_bos_token_id() || model.has_eos_token_id()) {
    prompt->Add(model.has_bos_token_id() ? model.bos_token_id() : model.eos_token_id());
  }
  prompt->Add(given.begin(), given.end());
  v1::SamplingParams& sampling = *request.mutable_sampling();
  const auto rest = static_cast<int32_t>(TokensOf(shape) - static_cast<int64_t>(given.size()));
  sampling.set_max_tokens(rest);
  sampling.set_min_tokens(rest);
  for (int32_t level = 0; level < shape.levels(); ++level) {
    sampling.add_allowed_token_ids(shape.first_token_id() + level);
  }
  sampling.set_n(options.count);
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.seed) sampling.set_seed(*options.seed);
  return request;
}

// What was written. stdout may be the file.
void Tell(const Globals& globals, const DrawOptions& options, const Bitmap& bitmap) {
  const bool is_stdout = options.out == "-";
  std::fprintf(stderr, "%s: %s, %d x %d pixels\n", is_stdout ? "stdout" : options.out.c_str(),
               Counted(options.count, "image").c_str(), bitmap.width, bitmap.height);
  if (!globals.json || is_stdout) return;
  const nlohmann::json json = {{"file", options.out},
                               {"images", options.count},
                               {"width", bitmap.width},
                               {"height", bitmap.height}};
  // A file's name may be no UTF-8.
  const auto replace = nlohmann::json::error_handler_t::replace;
  std::printf("%s\n", json.dump(2, ' ', /*ensure_ascii=*/false, replace).c_str());
}

int RunDraw(const Globals& globals, const DrawOptions& options) {
  const auto model = globals.client->GetModel(options.model, globals.Call());
  if (!model.ok()) return globals.Fail(model.status());
  if (const auto status = CheckDraws(*model); !status.ok()) return globals.FailUsage(status);
  auto given = GivenRows(options, model->image());
  if (!given.ok()) return globals.FailUsage(given.status());
  // Without an id to begin from, an image begins with its first sample: the lowest, a corner's.
  if (given->empty() && !model->has_bos_token_id() && !model->has_eos_token_id()) {
    given->push_back(model->image().first_token_id());
  }
  OutputFile file(options.out, Readers::kUmask);
  if (const auto status = file.Open(); !status.ok()) return globals.FailUsage(status);
  if (file.IsTerminal()) {
    return globals.FailUsage(absl::InvalidArgumentError(
        "--out: a terminal cannot show a PNG file; name a file, or send stdout into one"));
  }

  const auto stream =
      globals.client->Generate(MakeRequest(options, *model, *given), globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  std::vector<std::vector<int32_t>> images(options.count, *given);
  const double whole = static_cast<double>(options.count * TokensOf(model->image()));
  v1::GenerateResponse response;
  for (int64_t tokens = 0; stream->Next(&response);) {
    for (const v1::SampleDelta& delta : response.deltas()) {
      auto& ids = images.at(delta.index());
      ids.insert(ids.end(), delta.token_ids().begin(), delta.token_ids().end());
      tokens += delta.token_ids_size();
    }
    if (isatty(STDERR_FILENO) == 1) {
      std::fprintf(stderr, "\r%.0f%%", 100 * static_cast<double>(tokens) / whole);
    }
  }
  if (isatty(STDERR_FILENO) == 1) std::fprintf(stderr, "\r\033[K");
  if (const absl::Status status = stream->Finish(); !status.ok()) return globals.Fail(status);

  SheetOptions sheet = options.sheet;
  sheet.columns =
      options.columns > 0
          ? options.columns
          : static_cast<int32_t>(std::ceil(std::sqrt(static_cast<double>(options.count))));
  const Bitmap bitmap = Sheet(images, model->image(), sheet);
  auto status = file.Write(EncodePng(bitmap));
  if (status.ok()) status = file.Commit();
  if (!status.ok()) return globals.FailUsage(status);
  Tell(globals, options, bitmap);
  return kOk;
}

}  // namespace

void AddDraw(flags::Command app, Globals& globals) {
  auto options = std::make_shared<DrawOptions>();
  const flags::Command command =
      app.AddCommand("draw", "Draw images, with a model whose tokens are pixels");
  AddModel(command, options->model);
  command.Add("--out", options->out, "PNG file to write; -: stdout")
      .TypeName("FILE")
      .NotEmpty("a file's name")
      .Required();
  command.InsteadOfArguments("a file is given with --out");
  command.Add("--count", options->count, "Images, side by side in one file")
      .Within(1, 128)
      .ShowDefault();
  command.Add("--columns", options->columns, "Images in a row; 0: as square as may be")
      .Within(0, 128)
      .ShowDefault();
  command.Add("--scale", options->sheet.scale, "Enlarge pixels").Within(1, 32).ShowDefault();
  command.Add("--gap", options->sheet.gap, "Pixels between images").Within(0, 64).ShowDefault();
  const flags::Option complete = command.Add(
      "--complete", options->complete, "PNG file of one image: keep its upper rows, draw the rest");
  complete.TypeName("FILE").NotEmpty("a file's name");
  command.Add("--rows", options->rows, "Rows to keep; default half of them").Needs(complete);
  command.Add("--temperature", options->temperature, "0: always the most likely value");
  command.Add("--top-p", options->top_p, "Only the likeliest values that reach this");
  command.Add("--top-k", options->top_k, "Only the k likeliest values; 0: all");
  command.AddBits("--seed", options->seed, "The same seed draws the same images");
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunDraw(globals, *options); };
  });
}

}  // namespace tvq::cli
