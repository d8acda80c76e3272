// tvq score: how well a model predicts a text, in bits.
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/time/clock.h"
#include "client/cli/command.h"

namespace tvq::cli {
namespace {

struct Options {
  std::string model;
  std::string file = "-";
  bool no_eos = false;
};

struct Bits {
  explicit Bits(const v1::ScoreSummary& summary) : total(-summary.total_logprob() / std::log(2.0)) {
    if (summary.bytes() > 0) per_byte = total / static_cast<double>(summary.bytes());
    if (summary.scored_tokens() > 0) {
      per_token = total / static_cast<double>(summary.scored_tokens());
    }
  }
  double total = 0;
  double per_byte = 0;
  double per_token = 0;
};

void Print(const Globals& globals, const std::string& model, const v1::ScoreSummary& summary,
           double seconds) {
  const Bits bits(summary);
  if (globals.json) {
    const nlohmann::json json = {{"model", model},
                                 {"total_bits", bits.total},
                                 {"tokens", summary.tokens()},
                                 {"scored_tokens", summary.scored_tokens()},
                                 {"bytes", summary.bytes()},
                                 {"bits_per_byte", bits.per_byte},
                                 {"bits_per_token", bits.per_token},
                                 {"seconds", seconds}};
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  std::printf("%.4f bits per byte (%.1f bits, %lld bytes, %lld tokens, %.0f tokens/s)\n",
              bits.per_byte, bits.total, static_cast<long long>(summary.bytes()),
              static_cast<long long>(summary.tokens()),
              static_cast<double>(summary.tokens()) / seconds);
}

int Run(const Globals& globals, const Options& options) {
  v1::ScoreRequest request;
  if (auto status = ReadInput(options.file, request.mutable_text()); !status.ok()) {
    std::fprintf(stderr, "tvq: %s\n", status.ToString().c_str());
    return kUsage;
  }
  const auto client = globals.Connect();
  const auto model = client->GetModel(options.model, globals.Call());
  if (!model.ok()) return globals.Fail(model.status());
  request.set_model(model->name());
  request.set_summary_only(true);
  request.set_prepend_eos(model->has_eos_token_id() && !options.no_eos);

  const absl::Time start = absl::Now();
  const bool progress = isatty(STDERR_FILENO) == 1;
  const auto stream = client->Score(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  v1::ScoreResponse response;
  v1::ScoreSummary summary;
  while (stream->Next(&response)) {
    if (progress) {
      std::fprintf(stderr, "\r%lld tokens", static_cast<long long>(response.tokens_done()));
    }
    if (response.has_summary()) summary = response.summary();
  }
  if (progress) std::fprintf(stderr, "\r\033[K");
  if (const absl::Status status = stream->Finish(); !status.ok()) return globals.Fail(status);
  Print(globals, model->name(), summary, absl::ToDoubleSeconds(absl::Now() - start));
  return kOk;
}

}  // namespace

void AddScore(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("score", "Bits per byte of a text, the whole of it being one context");
  command->add_option("--model", options->model,
                      "Name of the model; may be left out if there is one");
  command->add_option("--file", options->file, "Text to score, UTF-8; -: stdin")
      ->capture_default_str();
  command->add_flag("--no-eos", options->no_eos,
                    "Do not feed the end-of-sequence id first; the first token is then not scored");
  command->callback([&globals, options] {
    globals.run = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tvq::cli
