// tvq-bench reads: what it costs a text, and saves a step, when decode reads less than a state's
// exact rows. Prompts attend exactly, so contexts are fed token by token. The settings take turns.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "tests/bench/benches.h"
#include "tests/bench/scored_contexts.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {
namespace {

// Tokens of a turn: few enough that what else the machine does hits all settings alike.
constexpr size_t kTurn = 256;

// One way to read, on its way through the text.
struct Setting {
  StateReads reads;
  Subject subject;
  std::unique_ptr<State> state;
  Logits logits;
  double bits = 0;
  double seconds = 0;
};

double BitsOf(std::span<const float> logits, int32_t token) {
  const double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (const float logit : logits) sum += std::exp(logit - top);
  return (std::log(sum) + top - logits[static_cast<size_t>(token)]) / std::log(2.0);
}

// Feeds ids[first..last) of a context and scores what follows each of them, if that was not given.
absl::Status Advance(Setting& setting, const ScoredContext& context, size_t first, size_t last) {
  std::vector<float> row(static_cast<size_t>(setting.logits.view.dim(1)));
  if (first == 0) {
    if (absl::Status s = setting.state->Reset(); !s.ok()) return s;
  }
  for (size_t i = first; i < last; ++i) {
    const DecodeRow step{setting.state.get(), context.ids[i], 0};
    const Stopwatch watch;
    absl::Status s = setting.subject.model->Decode({&step, 1}, &setting.logits);
    setting.seconds += watch.Seconds();
    if (s.ok()) s = setting.subject.model->ReadLogits(setting.logits, 0, row);
    if (!s.ok()) return s;
    if (i + 1 >= context.given) setting.bits += BitsOf(row, context.ids[i + 1]);
  }
  return absl::OkStatus();
}

// Tokens fed and scored.
struct Counts {
  size_t fed = 0;
  size_t scored = 0;
};

Json ReportSetting(const Setting& setting, const Setting& exact, const Counts& counts) {
  const double bits = setting.bits / double(counts.scored), loss = setting.bits / exact.bits - 1;
  const double speed = double(counts.fed) / setting.seconds;
  const StateReadTotals reads = ReadTotals(*setting.subject.model);
  const double rows = reads.rows == 0 ? 1 : double(reads.rows_read) / double(reads.rows);
  const double mass = reads.queries == 0 ? 0 : reads.skipped_mass / double(reads.queries);
  const char* const values = setting.reads.int8 ? "int8" : "exact";
  std::printf("%-6s %9g %10.4f %+9.3f%% %9.1f%% %10.4g %9.0f\n", values,
              static_cast<double>(setting.reads.skip_mass), bits, 100 * loss, 100 * rows, mass,
              speed);
  return {{"values", values},          {"skip_mass", setting.reads.skip_mass},
          {"bits_per_token", bits},    {"loss", loss},
          {"rows_read", rows},         {"skipped_mass", mass},
          {"tokens_per_second", speed}};
}

absl::StatusOr<Setting> Open(Options options, const StateReads& reads) {
  Setting setting{.reads = reads};
  options.reads = reads;
  absl::StatusOr<Subject> subject = OpenSubject(options);
  if (!subject.ok()) return subject.status();
  setting.subject = *std::move(subject);
  absl::StatusOr<std::unique_ptr<State>> state = setting.subject.model->NewState();
  if (!state.ok()) return state.status();
  setting.state = *std::move(state);
  absl::StatusOr<Logits> logits = setting.subject.model->NewLogits(1);
  if (!logits.ok()) return logits.status();
  setting.logits = *std::move(logits);
  return setting;
}

}  // namespace

absl::Status BenchReads(Subject& subject, const Options& options, Json& report) {
  const absl::StatusOr<std::vector<ScoredContext>> contexts = ReadContexts(*subject.model, options);
  if (!contexts.ok()) return contexts.status();
  std::vector<Setting> settings;
  for (const bool int8 : {false, true}) {
    std::vector<float> masses{0};
    masses.insert(masses.end(), options.skip_masses.begin(), options.skip_masses.end());
    for (const float mass : masses) {
      absl::StatusOr<Setting> setting = Open(options, {int8, mass});
      if (!setting.ok()) return setting.status();
      settings.push_back(*std::move(setting));
    }
  }
  Counts counts;
  for (const ScoredContext& context : *contexts) {
    const size_t fed = context.ids.size() - 1;
    for (size_t first = 0; first < fed; first += kTurn) {
      for (Setting& setting : settings) {
        absl::Status s = Advance(setting, context, first, std::min(first + kTurn, fed));
        if (!s.ok()) return s;
      }
    }
    counts.fed += fed;
    counts.scored += context.ids.size() - context.given;
  }
  report["contexts"] = contexts->size();
  report["tokens"] = counts.scored;
  std::printf("%zu tokens scored, of %zu contexts\n%-6s %9s %10s %10s %10s %10s %9s\n",
              counts.scored, contexts->size(), "values", "skip mass", "bits/token", "loss",
              "rows read", "mass", "tokens/s");
  for (const Setting& setting : settings) {
    report["settings"].push_back(ReportSetting(setting, settings[0], counts));
  }
  return absl::OkStatus();
}

}  // namespace tvq::bench
