// tvq-bench drafts: what a step costs that feeds one session several tokens and takes all but the
// first back, and what the engine gains by such steps. Cases take turns.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "server/engine/engine.h"
#include "tests/bench/asks.h"
#include "tests/bench/benches.h"
#include "tests/bench/scored_contexts.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"
#include "tests/models/synthetic_state.h"

namespace tvq::bench {
namespace {

// Steps of a case in one round, of which the first is not timed.
constexpr int kSteps = 9;

// One session that is fed `rows` tokens at once, of which all but the first are taken back.
absl::StatusOr<double> StepMs(Subject& subject, State& state, int64_t rows, Logits& logits) {
  const std::vector<int32_t> tokens = PromptTokens(rows, subject.config.common.vocab_size);
  std::vector<DecodeRow> step;
  step.reserve(tokens.size());
  for (int64_t i = 0; i < rows; ++i) {
    step.push_back({&state, tokens[static_cast<size_t>(i)], i});
  }
  std::vector<double> times;
  for (int i = 0; i < kSteps; ++i) {
    const int64_t next = state.position() + 1;
    const Stopwatch watch;
    absl::Status s = subject.model->Decode(step, &logits);
    if (s.ok()) s = subject.model->drafts()->Rewind(state, next);
    if (s.ok()) s = subject.device->Synchronize();
    if (!s.ok()) return s;
    if (i > 0) times.push_back(watch.Seconds() * 1e3);
  }
  return Median(times);
}

absl::Status TimeSteps(const Options& options, Json& report) {
  const int64_t most = *std::max_element(options.draft_tokens.begin(), options.draft_tokens.end());
  absl::StatusOr<Subject> subject = OpenSubject(options, most);
  if (!subject.ok()) return subject.status();
  if (DraftRows(*subject->model) == 0) {
    return absl::UnimplementedError("on this device the model takes no tokens back");
  }
  absl::StatusOr<std::unique_ptr<State>> state = subject->model->NewState();
  if (!state.ok()) return state.status();
  if (absl::Status s = Synthesize(*subject->model, **state, options.contexts[0], 1); !s.ok())
    return s;
  absl::StatusOr<Logits> logits = subject->model->NewLogits(1 + most);
  if (!logits.ok()) return logits.status();

  std::vector<int64_t> rows{1};
  for (const int64_t drafts : options.draft_tokens) rows.push_back(1 + drafts);
  std::vector<std::vector<double>> ms(rows.size()), ratios(rows.size());
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (size_t i = 0; i < rows.size(); ++i) {
      const absl::StatusOr<double> time = StepMs(*subject, **state, rows[i], *logits);
      if (!time.ok()) return time.status();
      ms[i].push_back(*time);
      ratios[i].push_back(*time / ms[0].back());
    }
  }
  std::printf("%-8s %10s %14s %17s\n", "tokens", "ms/step", "times one's", "of rounds");
  for (size_t i = 0; i < rows.size(); ++i) {
    std::printf("%-8lld %10.3f %14.3f %8.3f-%-8.3f\n", static_cast<long long>(rows[i]),
                Median(ms[i]), Median(ratios[i]), Quantile(ratios[i], 0), Quantile(ratios[i], 1));
    report["steps"].push_back(
        {{"tokens", rows[i]}, {"ms", Median(ms[i])}, {"times_one", Median(ratios[i])}});
  }
  return absl::OkStatus();
}

// An engine with so many drafts a step.
struct Drafting {
  int64_t drafts = 0;
  std::shared_ptr<Device> device;
  std::unique_ptr<Engine> engine;
  Side side, neighbour;
};

absl::StatusOr<Drafting> MakeEngine(const Options& options, int64_t drafts) {
  absl::StatusOr<Subject> subject = OpenSubject(options, drafts);
  if (!subject.ok()) return subject.status();
  Drafting made{.drafts = drafts, .device = subject->device};
  // States of as many requests as are asked together, of each engine.
  EngineOptions engine_options;
  const int64_t requests = options.batches[0] + (options.neighbour_text.empty() ? 0 : 1);
  engine_options.state_memory_bytes = 2 * requests * subject->model->StateBytes(1);
  auto engine = Engine::Create({{kAskedModel, std::shared_ptr<Model>(std::move(subject->model))}},
                               engine_options);
  if (!engine.ok()) return engine.status();
  made.engine = *std::move(engine);
  return made;
}

// The requests, and the neighbour's, if there is one, beside them: what it gets counts while all of
// them generate.
absl::Status AskBoth(const Ask& ask, const Ask& neighbour, Drafting& d) {
  if (neighbour.prompt.empty()) return d.side.Add(AskEngine(*d.engine, ask));
  absl::StatusOr<Together> beside;
  std::thread other([&] { beside = AskEngine(*d.engine, neighbour); });
  const absl::StatusOr<Together> requests = AskEngine(*d.engine, ask);
  other.join();
  absl::Status s = d.side.Add(requests);
  s.Update(d.neighbour.Add(beside));
  if (!s.ok()) return s;
  Together all = *requests;
  all.push_back(beside->front());
  d.neighbour.per_token.back() = MsPerTokenOf(all, all.size() - 1);
  if (d.neighbour.per_token.back() > 0) return s;
  return absl::FailedPreconditionError(
      "the requests and their neighbour never all generated at once; ask for more --max-tokens");
}

absl::Status Generate(const Options& options, std::vector<int32_t> prompt,
                      std::vector<int32_t> beside, Json& report) {
  const Ask ask{.prompt = std::move(prompt),
                .max_tokens = options.max_tokens,
                .together = options.batches[0],
                .temperature = options.temperature};
  // It goes on when the others are done, whoever is faster and whoever began first, and hardly
  // repeats itself.
  const Ask neighbour{.prompt = std::move(beside), .max_tokens = 4 * options.max_tokens};
  std::vector<int64_t> settings{0};
  settings.insert(settings.end(), options.draft_tokens.begin(), options.draft_tokens.end());
  std::vector<Drafting> engines;
  for (const int64_t drafts : settings) {
    auto made = MakeEngine(options, drafts);
    if (!made.ok()) return made.status();
    engines.push_back(*std::move(made));
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Drafting& d : engines) {
      if (absl::Status s = AskBoth(ask, neighbour, d); !s.ok()) return s;
      if (d.side.tokens != engines[0].side.tokens ||
          d.neighbour.tokens != engines[0].neighbour.tokens) {
        return absl::AbortedError("drafts changed what was generated");
      }
    }
  }
  PrintSidesHead();
  for (const Drafting& d : engines) {
    const EngineStats stats = d.engine->stats();
    Json result = ReportSide(("drafts of " + std::to_string(d.drafts)).c_str(), d.side);
    const double percent = Median(PercentOf(engines[0].side, d.side));
    const auto generated = static_cast<double>(stats.generation_tokens);
    const double accepted = static_cast<double>(stats.draft_tokens_accepted) / generated;
    const double drafted = static_cast<double>(stats.draft_tokens) / generated;
    std::printf(
        "    %.1f%% of the speed without; of 100 tokens %.1f were drafted, %.1f drafts wrong\n",
        percent, 100 * accepted, 100 * (drafted - accepted));
    result["draft_tokens"] = d.drafts;
    result["percent_of_none"] = percent;
    result["accepted_per_token"] = accepted;
    result["drafted_per_token"] = drafted;
    if (!neighbour.prompt.empty()) {
      result["neighbour"] = ReportSide("  its neighbour", d.neighbour);
      const double kept = Median(PercentOf(engines[0].neighbour, d.neighbour));
      std::printf("    %.1f%% of the neighbour's speed without\n", kept);
      result["neighbour"]["percent_of_none"] = kept;
    }
    report["generated"].push_back(std::move(result));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchDrafts(Subject& subject, const Options& options, Json& report) {
  if (absl::Status s = TimeSteps(options, report); !s.ok()) return s;
  if (options.text.empty()) return absl::OkStatus();
  Options text = options;
  text.tokens = options.prompt_tokens - 1;
  auto contexts = ReadContexts(*subject.model, text);
  if (!contexts.ok()) return contexts.status();
  std::vector<int32_t> neighbour;
  if (!options.neighbour_text.empty()) {
    text.text = options.neighbour_text;
    auto others = ReadContexts(*subject.model, text);
    if (!others.ok()) return others.status();
    neighbour = std::move(others->front().ids);
  }
  report["prompt_tokens"] = contexts->front().ids.size();
  report["max_tokens"] = options.max_tokens;
  report["batch"] = options.batches[0];
  report["temperature"] = options.temperature;
  return Generate(options, std::move(contexts->front().ids), std::move(neighbour), report);
}

}  // namespace tvq::bench
