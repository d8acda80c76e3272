// tvq-bench decode. The cases of a batch size take turns within every round, so that a change in
// what else the machine does hits all of them alike.

#include <algorithm>
#include <cstdio>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tests/bench/benches.h"
#include "tests/bench/byte_model.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/machine.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {
namespace {

// Steps after a pause or another case, not timed: caches and the thread pool wake up.
constexpr int kWarmUpSteps = 2;
constexpr int kMinSteps = 5;
// Steps before the logits' hash is taken.
constexpr int kHashSteps = 4;

struct Case {
  int64_t batch = 0;
  int64_t context = 0;
  uint64_t hash = 0;
  std::vector<double> step_ms;    // of all rounds
  std::vector<double> read_ms;    // of reading a step's bytes behind each step; with --tail
  std::vector<double> round_ms;   // medians of the rounds
  std::vector<double> ceiling_1;  // GB/s, one thread
  std::vector<double> ceiling_n;  // GB/s, all of the device: mean of before and after
  std::vector<double> percent;    // of ceiling_n, by round
  std::vector<OpTime> ops;        // only with --profile
  std::unique_ptr<Sessions> sessions;
  double rows_read = 1;     // of rows of values
  double skipped_mass = 0;  // mean of all queries
  std::vector<ByteLine> lines;
};

// Of a shape that is not known: everything that there is.
std::vector<ByteLine> LinesOf(const Subject& subject, int64_t context, double rows_read) {
  const ModelInfo& info = subject.model->info();
  if (!subject.known_shape) {
    const int64_t state = subject.model->StateBytes(context + 1);
    return {{"", "weights", "all", info.weight_bytes, false},
            {"", "state", absl::StrCat("after ", context), state, true}};
  }
  return StepByteLines(subject.config, info.dtype, {info.state_dtype, info.reads.int8, rows_read});
}

// Notes what the steps since `before` have read.
void NoteReads(const Subject& subject, const StateReadTotals& before, Case& c) {
  const StateReadTotals now = ReadTotals(*subject.model);
  if (now.queries > before.queries) {
    c.rows_read = static_cast<double>(now.rows_read - before.rows_read) /
                  static_cast<double>(now.rows - before.rows);
    c.skipped_mass = (now.skipped_mass - before.skipped_mass) /
                     static_cast<double>(now.queries - before.queries);
  }
  c.lines = LinesOf(subject, c.context, c.rows_read);
}

absl::Status StartCase(Subject& subject, Case& c) {
  absl::StatusOr<Sessions> sessions = Sessions::Create(*subject.model, *subject.device, c.batch);
  if (!sessions.ok()) return sessions.status();
  c.sessions = std::make_unique<Sessions>(*std::move(sessions));
  if (absl::Status s = c.sessions->Synthesize(c.context); !s.ok()) return s;
  const StateReadTotals before = ReadTotals(*subject.model);
  for (int i = 0; i < kHashSteps; ++i) {
    if (absl::Status s = c.sessions->Step(); !s.ok()) return s;
  }
  absl::StatusOr<uint64_t> hash = c.sessions->LogitsHash();
  if (!hash.ok()) return hash.status();
  c.hash = *hash;
  NoteReads(subject, before, c);
  return absl::OkStatus();
}

// Adds what ops took since they were last asked, and returns it in seconds.
absl::StatusOr<double> AddOpTimes(Case& c) {
  const auto ops = TakeOpTimes();
  if (!ops.ok()) return ops.status();
  double sum = 0;
  for (const OpTime& time : *ops) {
    auto same = std::find_if(c.ops.begin(), c.ops.end(),
                             [&](const OpTime& known) { return known.op == time.op; });
    if (same == c.ops.end()) same = c.ops.insert(same, {time.op});
    same->calls += time.calls;
    same->seconds += time.seconds;
    sum += time.seconds;
  }
  return sum;
}

// Milliseconds of one step. With --profile on a GPU they are the sum of its ops: they are launched
// while it is occupied, because between two of them it would else wait for the host.
absl::StatusOr<double> TimeStep(Case& c, bool one_by_one, Ceiling& ceiling) {
  if (one_by_one) {
    if (absl::Status s = ceiling.Occupy(); !s.ok()) return s;
  }
  const Stopwatch step;
  if (absl::Status s = c.sessions->Step(); !s.ok()) return s;
  const double seconds = step.Seconds();
  const absl::StatusOr<double> ops = AddOpTimes(c);
  if (!ops.ok()) return ops.status();
  return (one_by_one ? *ops : seconds) * 1e3;
}

struct RoundOptions {
  double seconds = 0;
  bool one_by_one = false;  // see TimeStep
  bool tail = false;        // behind every step, time a read of as many bytes
};

absl::Status RunRound(Case& c, const RoundOptions& options, Ceiling& ceiling) {
  const absl::StatusOr<double> one_thread = ceiling.MeasureOneThread();
  if (!one_thread.ok()) return one_thread.status();
  const absl::StatusOr<double> before = ceiling.Measure();
  if (!before.ok()) return before.status();
  for (int i = 0; i < kWarmUpSteps; ++i) {
    if (absl::Status s = c.sessions->Step(); !s.ok()) return s;
  }
  if (const auto times = TakeOpTimes(); !times.ok()) return times.status();
  std::vector<double> steps;
  const int64_t step_bytes = StepBytes(c.lines, c.batch);
  for (const Stopwatch round; steps.size() < kMinSteps || round.Seconds() < options.seconds;) {
    const absl::StatusOr<double> ms = TimeStep(c, options.one_by_one, ceiling);
    if (!ms.ok()) return ms.status();
    steps.push_back(*ms);
    if (options.tail) c.read_ms.push_back(ceiling.ReadOnce(step_bytes) * 1e3);
  }
  const absl::StatusOr<double> after = ceiling.Measure();
  if (!after.ok()) return after.status();
  const double around = (*before + *after) / 2;
  const double median = Median(steps);
  c.step_ms.insert(c.step_ms.end(), steps.begin(), steps.end());
  c.round_ms.push_back(median);
  c.ceiling_1.push_back(*one_thread);
  c.ceiling_n.push_back(around);
  c.percent.push_back(static_cast<double>(step_bytes) / (median * 1e-3) / 1e9 / around * 100);
  return absl::OkStatus();
}

Json Summary(const std::vector<double>& values) {
  return {{"median", Median(values)}, {"min", Quantile(values, 0)}, {"max", Quantile(values, 1)}};
}

// How much longer the slow ones take than the median: of steps, and of reads between them.
void ReportTail(const Case& c, Json& json) {
  const auto over = [](const std::vector<double>& ms) { return Quantile(ms, 0.99) / Median(ms); };
  std::printf("    p99 over median: steps %.2f, reads of as many bytes %.2f (median %.2f ms)\n",
              over(c.step_ms), over(c.read_ms), Median(c.read_ms));
  json["read_ms_median"] = Median(c.read_ms);
  json["read_ms_p99"] = Quantile(c.read_ms, 0.99);
}

Json ReportCase(const Case& c, const Subject& subject) {
  const int64_t step_bytes = StepBytes(c.lines, c.batch);
  const double ms = Median(c.step_ms), p99 = Quantile(c.step_ms, 0.99);
  const double tokens_per_second = static_cast<double>(c.batch) * 1e3 / ms;
  const double speed = static_cast<double>(step_bytes) / ms / 1e6;
  std::printf("%5lld %9lld %9.1f %8.2f %8.2f %7.2f-%-7.2f %7.1f %6.1f %6.1f %5.0f%% %016llx\n",
              static_cast<long long>(c.batch), static_cast<long long>(c.context), tokens_per_second,
              ms, p99, Quantile(c.round_ms, 0), Quantile(c.round_ms, 1), speed, Median(c.ceiling_1),
              Median(c.ceiling_n), Median(c.percent), static_cast<unsigned long long>(c.hash));
  if (c.rows_read < 1) {
    std::printf("    %.1f%% of the rows read, %.3g of a query's softmax left out\n",
                100 * c.rows_read, c.skipped_mass);
  }
  Json json = {{"batch", c.batch},
               {"context", c.context},
               {"steps", c.step_ms.size()},
               {"tokens_per_second", tokens_per_second},
               {"ms_median", ms},
               {"ms_p99", p99},
               {"ms_of_rounds", Summary(c.round_ms)},
               {"bytes_per_step", step_bytes},
               {"rows_read", c.rows_read},
               {"skipped_mass", c.skipped_mass},
               {"gigabytes_per_second", speed},
               {"ceiling_1_thread", Summary(c.ceiling_1)},
               {"ceiling_n_threads", Summary(c.ceiling_n)},
               {"percent_of_ceiling", Summary(c.percent)},
               {"logits_hash", absl::StrFormat("%016x", c.hash)}};
  if (subject.known_shape) {
    const StepFlops flops = DecodeFlops(subject.config, c.batch);
    json["matrix_flops_per_step"] = flops.matrix;
    json["other_flops_per_step"] = flops.other;
  }
  if (!c.ops.empty()) {
    const auto bytes = [&](const std::string& op) { return OpBytes(c.lines, op, c.batch); };
    ReportOpTimes(c.ops, "step", static_cast<int64_t>(c.step_ms.size()), json,
                  {.bytes = bytes, .ceiling = Median(c.ceiling_n)});
  }
  if (!c.read_ms.empty()) ReportTail(c, json);
  return json;
}

Json ReportBytes(const std::vector<ByteLine>& lines) {
  Json json;
  std::printf("bytes read by a step:\n");
  for (const ByteLine& line : lines) {
    std::printf("  %14lld %-11s %s: %s\n", static_cast<long long>(line.bytes),
                line.per_session ? "per session" : "once", line.what.c_str(), line.formula.c_str());
    json.push_back({{"what", line.what},
                    {"op", line.op},
                    {"formula", line.formula},
                    {"bytes", line.bytes},
                    {"per_session", line.per_session}});
  }
  return json;
}

// Resident memory that one more session takes, measured on a few.
absl::Status MeasureSession(Subject& subject, Json& report) {
  constexpr int64_t kSessions = 4;
  // The first takes what synthesizing needs for itself.
  absl::StatusOr<Sessions> first = Sessions::Create(*subject.model, *subject.device, 1);
  if (!first.ok()) return first.status();
  if (absl::Status s = first->Synthesize(100000); !s.ok()) return s;
  const int64_t before = ResidentBytes();
  absl::StatusOr<Sessions> more = Sessions::Create(*subject.model, *subject.device, kSessions);
  if (!more.ok()) return more.status();
  if (absl::Status s = more->Synthesize(100000); !s.ok()) return s;
  const int64_t measured = (ResidentBytes() - before) / kSessions;
  const ModelInfo& info = subject.model->info();
  const int64_t formula = SessionBytes(subject.config, info.state_dtype, info.reads.int8);
  std::printf("bytes a session: formula %lld, model says %lld, resident %lld\n",
              static_cast<long long>(formula), static_cast<long long>(subject.model->StateBytes(1)),
              static_cast<long long>(measured));
  report["session_bytes"] = {
      {"formula", formula}, {"model", subject.model->StateBytes(1)}, {"resident", measured}};
  return absl::OkStatus();
}

// Contexts whose states fit into memory together, so that they can take turns.
size_t ContextsAtOnce(const Subject& subject, int64_t batch, size_t contexts) {
  const int64_t per_context = std::max<int64_t>(1, batch * subject.model->StateBytes(1));
  const int64_t free = subject.device->FreeMemory().value_or(AvailableBytes());
  // Synthesizing needs one state more; the rest of the machine keeps a quarter.
  const int64_t fit = free / 4 * 3 / per_context;
  return static_cast<size_t>(std::clamp<int64_t>(fit, 1, static_cast<int64_t>(contexts)));
}

absl::Status RunCases(Subject& subject, const Options& options, int64_t batch,
                      std::span<const int64_t> contexts, Ceiling& ceiling, Json& report) {
  const RoundOptions round_options = {
      .seconds = options.seconds,
      .one_by_one = options.profile && !subject.device->host_memory(),
      .tail = options.tail};
  std::vector<Case> cases;
  for (const int64_t context : contexts) {
    cases.push_back({.batch = batch, .context = context});
    if (absl::Status s = StartCase(subject, cases.back()); !s.ok()) return s;
  }
  for (int64_t round = 0; round < options.rounds; ++round) {
    for (Case& c : cases) {
      absl::Status s = RunRound(c, round_options, ceiling);
      if (!s.ok()) return s;
    }
  }
  for (const Case& c : cases) report["cases"].push_back(ReportCase(c, subject));
  std::fflush(stdout);
  return absl::OkStatus();
}

}  // namespace

absl::Status BenchDecode(Subject& subject, const Options& options, Json& report) {
  if (options.tail && !subject.device->host_memory()) {
    return absl::InvalidArgumentError("--tail times reads by the CPU's threads: use --device cpu");
  }
  report["bytes"] = ReportBytes(LinesOf(subject, options.contexts.front(), 1));
  if (subject.known_shape && subject.device->host_memory()) {
    if (absl::Status s = MeasureSession(subject, report); !s.ok()) return s;
  }
  const auto ceiling =
      MakeCeiling(*subject.device, static_cast<size_t>(options.ceiling_megabytes) << 20);
  if (!ceiling.ok()) return ceiling.status();
  const bool reads = subject.device->host_memory();
  report["ceiling"] = reads ? "reads" : "copies";
  if (options.profile && !reads) std::printf("kernels one by one; a step is the sum of its ops\n");
  std::printf("%5s %9s %9s %8s %8s %15s %7s %6s %6s %6s %s\n", "batch", "context", "tokens/s", "ms",
              "p99", "of rounds", "GB/s", reads ? "1 thr" : "", reads ? "all" : "copies",
              reads ? "of all" : "of it", "hash of logits");
  for (const int64_t batch : options.batches) {
    const size_t at_once = ContextsAtOnce(subject, batch, options.contexts.size());
    for (size_t first = 0; first < options.contexts.size(); first += at_once) {
      const std::span<const int64_t> all(options.contexts);
      const std::span<const int64_t> group =
          all.subspan(first, std::min(at_once, all.size() - first));
      absl::Status s = RunCases(subject, options, batch, group, **ceiling, report);
      if (!s.ok()) return s;
    }
  }
  return absl::OkStatus();
}

}  // namespace tvq::bench
