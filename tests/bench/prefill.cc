// tvq-bench prefill: a prompt fed in the model's chunks, between two measurements of the device's
// matrix rate, and tokens of the same session decoded one by one, in turns.

#include <cstdio>
#include <vector>

#include "tests/bench/benches.h"
#include "tests/bench/byte_model.h"
#include "tests/bench/matrix_ceiling.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"
#include "tests/models/synthetic_state.h"

namespace tvq::bench {
namespace {

struct PrefillCase {
  int64_t context = 0;
  int64_t chunks = 0;
  std::vector<double> prefill;  // tokens/s by round
  std::vector<double> decode;
  std::vector<double> ceiling;  // GFLOP/s: mean of before and after
  std::vector<OpTime> ops;      // of the last round's prefill; only with --profile
};

absl::Status RunRound(Subject& subject, const Options& options, State& state, Sessions& sessions,
                      Logits& logits, MatrixCeiling& ceiling, PrefillCase& c) {
  const std::vector<int32_t> prompt =
      PromptTokens(options.prompt_tokens, subject.config.common.vocab_size);
  if (absl::Status s =
          c.context > 0 ? Synthesize(*subject.model, state, c.context, 1) : state.Reset();
      !s.ok()) {
    return s;
  }
  const absl::StatusOr<double> before = ceiling.Measure();
  if (!before.ok()) return before.status();
  if (const auto times = TakeOpTimes(); !times.ok()) return times.status();
  const Stopwatch prefill;
  const absl::StatusOr<int64_t> chunks = FeedPrompt(*subject.model, state, prompt, logits);
  if (!chunks.ok()) return chunks.status();
  if (absl::Status s = subject.device->Synchronize(); !s.ok()) return s;
  c.prefill.push_back(static_cast<double>(prompt.size()) / prefill.Seconds());
  c.chunks = *chunks;
  auto ops = TakeOpTimes();
  if (!ops.ok()) return ops.status();
  c.ops = *std::move(ops);
  const absl::StatusOr<double> after = ceiling.Measure();
  if (!after.ok()) return after.status();
  c.ceiling.push_back((*before + *after) / 2);

  if (absl::Status s = sessions.Step(); !s.ok()) return s;
  const Stopwatch decode;
  int64_t steps = 0;
  for (; steps < 5 || decode.Seconds() < options.seconds; ++steps) {
    if (absl::Status s = sessions.Step(); !s.ok()) return s;
  }
  c.decode.push_back(static_cast<double>(steps) / decode.Seconds());
  return absl::OkStatus();
}

Json ReportCase(const PrefillCase& c, int64_t prompt_tokens, int64_t flops) {
  const double speed = Median(c.prefill), decode = Median(c.decode);
  const double billions = static_cast<double>(flops) / 1e9;
  std::vector<double> ratios, percent;
  ratios.reserve(c.prefill.size());
  percent.reserve(c.prefill.size());
  for (size_t i = 0; i < c.prefill.size(); ++i) {
    ratios.push_back(c.prefill[i] / c.decode[i]);
    percent.push_back(100 * c.prefill[i] * billions / c.ceiling[i]);
  }
  const double gigaflops = speed * billions;
  std::printf("%9lld %7lld %10.1f %9.1f-%-9.1f %9.1f %9.1f %5.1f%% %9.1f %6.1fx\n",
              static_cast<long long>(c.context), static_cast<long long>(prompt_tokens), speed,
              Quantile(c.prefill, 0), Quantile(c.prefill, 1), gigaflops, Median(c.ceiling),
              Median(percent), decode, Median(ratios));
  Json json = {{"context", c.context},
               {"prompt_tokens", prompt_tokens},
               {"tokens_per_second", speed},
               {"tokens_per_second_min", Quantile(c.prefill, 0)},
               {"tokens_per_second_max", Quantile(c.prefill, 1)},
               {"gigaflops", gigaflops},
               {"matrix_gigaflops", Median(c.ceiling)},
               {"percent_of_matrix_rate", Median(percent)},
               {"decode_tokens_per_second", decode},
               {"ratio_over_decode", Median(ratios)}};
  if (!c.ops.empty()) ReportOpTimes(c.ops, "chunk", c.chunks, json);
  return json;
}

}  // namespace

absl::Status BenchPrefill(Subject& subject, const Options& options, Json& report) {
  absl::StatusOr<std::unique_ptr<State>> state = subject.model->NewState();
  if (!state.ok()) return state.status();
  absl::StatusOr<Sessions> sessions = Sessions::Create(*subject.model, *subject.device, 1);
  if (!sessions.ok()) return sessions.status();
  if (absl::Status s = sessions->Synthesize(2000); !s.ok()) return s;
  absl::StatusOr<Logits> logits = subject.model->NewLogits(1);
  if (!logits.ok()) return logits.status();

  absl::StatusOr<MatrixCeiling> ceiling =
      MatrixCeiling::Create(*subject.device, subject.model->info().dtype, options.matrix_size);
  if (!ceiling.ok()) return ceiling.status();

  std::vector<PrefillCase> cases;
  cases.reserve(options.contexts.size());
  for (const int64_t context : options.contexts) cases.push_back({.context = context});
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (PrefillCase& c : cases) {
      absl::Status s = RunRound(subject, options, **state, *sessions, *logits, *ceiling, c);
      if (!s.ok()) return s;
    }
  }
  const int64_t flops = subject.known_shape ? PrefillFlops(subject.config) : 0;
  report["flops_per_token"] = flops;
  std::printf("%9s %7s %10s %19s %9s %9s %6s %9s %7s\n", "context", "prompt", "tokens/s",
              "of rounds", "GFLOP/s", "product's", "of it", "decode", "ratio");
  for (const PrefillCase& c : cases) {
    report["cases"].push_back(ReportCase(c, options.prompt_tokens, flops));
  }
  return absl::OkStatus();
}

}  // namespace tvq::bench
