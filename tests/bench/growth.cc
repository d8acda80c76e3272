// tvq-bench decode --tokens: many tokens in one session, and the process's memory before and after.

#include <algorithm>
#include <cstdio>
#include <span>
#include <vector>

#include "tests/bench/benches.h"
#include "tests/bench/machine.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {

absl::Status BenchGrowth(Subject& subject, const Options& options, Json& report) {
  // What the first tokens allocate stays: growth is counted from here.
  const int64_t warm_up = std::min<int64_t>(options.tokens / 10, 1000);
  absl::StatusOr<Sessions> sessions = Sessions::Create(*subject.model, *subject.device, 1);
  if (!sessions.ok()) return sessions.status();
  int64_t start = ResidentBytes();  // the first call takes some pages itself
  std::vector<double> ms(static_cast<size_t>(options.tokens));  // touched before it is measured
  for (int64_t i = 0; i < options.tokens; ++i) {
    if (i == warm_up) start = ResidentBytes();
    const Stopwatch step;
    if (absl::Status s = sessions->Step(); !s.ok()) return s;
    ms[static_cast<size_t>(i)] = step.Seconds() * 1e3;
  }
  const int64_t end = ResidentBytes();
  const std::span<const double> all(ms);
  const size_t tenth = std::max<size_t>(1, all.size() / 10);
  const double early = Median(all.first(tenth)), late = Median(all.last(tenth));
  std::printf("%lld tokens: resident %lld bytes after %lld tokens, %lld at the end (%+lld)\n",
              static_cast<long long>(options.tokens), static_cast<long long>(start),
              static_cast<long long>(warm_up), static_cast<long long>(end),
              static_cast<long long>(end - start));
  std::printf("ms a token: median %.3f, p99 %.3f; first tenth %.3f, last tenth %.3f\n", Median(ms),
              Quantile(ms, 0.99), early, late);
  report["growth"] = {{"tokens", options.tokens},
                      {"warm_up_tokens", warm_up},
                      {"resident_start", start},
                      {"resident_end", end},
                      {"ms_median", Median(ms)},
                      {"ms_p99", Quantile(ms, 0.99)},
                      {"ms_first_tenth", early},
                      {"ms_last_tenth", late},
                      {"state_bytes", subject.model->StateBytes(options.tokens)}};
  return absl::OkStatus();
}

}  // namespace tvq::bench
