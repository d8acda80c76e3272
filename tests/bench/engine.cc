// tvq-bench engine: requests that generate together, in turns by the model alone and through the
// engine: what scheduling, sampling's bookkeeping and delivery cost. Needs no gRPC.

#include "server/engine/engine.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "tests/bench/asks.h"
#include "tests/bench/benches.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {

absl::Status BenchEngine(Subject& subject, const Options& options, Json& report) {
  const Ask ask{.prompt = PromptTokens(options.prompt_tokens, subject.config.common.vocab_size),
                .max_tokens = options.max_tokens,
                .together = options.batches[0]};
  report["batch"] = ask.together;
  report["prompt_tokens"] = options.prompt_tokens;
  report["max_tokens"] = ask.max_tokens;
  Model& model = *subject.model;
  EngineOptions engine_options;
  engine_options.max_num_seqs = std::max(engine_options.max_num_seqs, ask.together);
  // From here on the model is the engine's, and ours only while the engine has nothing to do.
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      {{kAskedModel, std::shared_ptr<Model>(std::move(subject.model))}}, engine_options);
  if (!engine.ok()) return engine.status();

  Side alone, through, warm_up;
  absl::Status s = warm_up.Add(AskEngine(**engine, ask));
  for (int64_t round = 0; s.ok() && round < options.rounds; ++round) {
    s.Update(alone.Add(AskModel(model, *subject.device, ask)));
    s.Update(through.Add(AskEngine(**engine, ask)));
  }
  if (!s.ok()) return s;
  // The same request gets the same bits, whatever shares its steps.
  for (const std::vector<int32_t>& tokens : through.tokens) {
    if (tokens != warm_up.tokens[0]) {
      return absl::AbortedError("equal requests got different tokens from the engine");
    }
  }
  PrintSidesHead();
  report["model_alone"] = ReportSide("model alone", alone);
  report["engine"] = ReportSide("engine", through);
  const double percent = Median(PercentOf(alone, through));
  std::printf("the engine keeps %.1f%% of the model's tokens/s, %lld requests together\n", percent,
              static_cast<long long>(ask.together));
  report["percent_of_model"] = percent;
  return absl::OkStatus();
}

}  // namespace tvq::bench
