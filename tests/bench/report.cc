#include "tests/bench/report.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/bench/machine.h"

namespace tvq::bench {

Json StartReport(const std::string& bench, const Options& options, const Device& device) {
  Json report;
  report["bench"] = bench;
  report["command"] = options.command;
  report["time"] = absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone());
  report["processor"] = ProcessorName();
  report["device"] = device.Describe();
  std::printf("%s\non %s: %s\n", options.command.c_str(), ProcessorName().c_str(),
              device.Describe().c_str());
  return report;
}

Json StartReport(const std::string& bench, const Options& options, const Subject& subject) {
  const ModelInfo& info = subject.model->info();
  Json report = StartReport(bench, options, *subject.device);
  report["model"] = {{"name", subject.name},
                     {"family", info.family},
                     {"parameters", info.parameters},
                     {"weight_bytes", info.weight_bytes},
                     {"dtype", Name(info.dtype)},
                     {"state_dtype", Name(info.state_dtype)},
                     {"state_read_dtype", info.reads.int8 ? "int8" : "exact"},
                     {"attention_skip_mass", info.reads.skip_mass},
                     {"state_bytes", subject.model->StateBytes(1)}};
  if (subject.known_shape) report["model"]["config"] = ConfigJson(subject.config);
  std::printf("%s: %s, %.1f M parameters, weights %s (%.1f MB), states %s (%.1f MB a session)\n",
              subject.name.c_str(), info.family.c_str(), static_cast<double>(info.parameters) / 1e6,
              Name(info.dtype), static_cast<double>(info.weight_bytes) / 1e6,
              Name(info.state_dtype), static_cast<double>(subject.model->StateBytes(1)) / 1e6);
  if (info.reads.int8 || info.reads.skip_mass > 0) {
    std::printf("decode reads %s values of a state, skip mass %g\n",
                info.reads.int8 ? "int8" : "exact", static_cast<double>(info.reads.skip_mass));
  }
  return report;
}

absl::Status ValidateInto(Subject& subject, Json& report) {
  absl::StatusOr<std::vector<Check>> checks = Validate(subject);
  if (!checks.ok()) return checks.status();
  if (const auto times = TakeOpTimes(); !times.ok()) return times.status();
  bool ok = true;
  for (const Check& check : *checks) {
    std::printf("check %s: %.2e (at most %.2e) %s\n", check.what.c_str(), check.found, check.bound,
                check.ok ? "ok" : "WRONG");
    report["checks"].push_back(
        {{"what", check.what}, {"found", check.found}, {"bound", check.bound}, {"ok", check.ok}});
    ok = ok && check.ok;
  }
  std::fflush(stdout);
  if (ok) return absl::OkStatus();
  return absl::AbortedError("a check failed: what computes wrongly is not timed");
}

void ReportOpTimes(std::vector<OpTime> times, const std::string& unit, int64_t count, Json& report,
                   const OpSpeed& speed) {
  std::sort(times.begin(), times.end(),
            [](const OpTime& a, const OpTime& b) { return a.seconds > b.seconds; });
  Json ops = Json::object(), speeds = Json::object();
  for (const OpTime& time : times) {
    const double ms = time.seconds * 1e3 / static_cast<double>(count);
    std::printf("    %-22s %9.3f ms a %s, %4lld calls", time.op.c_str(), ms, unit.c_str(),
                static_cast<long long>(time.calls / count));
    ops[time.op] = ms;
    const int64_t bytes = speed.bytes ? speed.bytes(time.op) : 0;
    if (bytes > 0) {
      const double rate = static_cast<double>(bytes) / ms / 1e6;
      std::printf(", %9.3f MB, %7.1f GB/s, %3.0f%%", static_cast<double>(bytes) / 1e6, rate,
                  rate / speed.ceiling * 100);
      speeds[time.op] = {{"bytes", bytes},
                         {"gigabytes_per_second", rate},
                         {"percent_of_ceiling", rate / speed.ceiling * 100}};
    }
    std::printf("\n");
  }
  report["ms_per_op"] = ops;
  if (!speeds.empty()) report["speed_per_op"] = speeds;
}

absl::Status WriteReport(const Json& report, const std::string& path) {
  if (path.empty()) return absl::OkStatus();
  std::ofstream file(path);
  file << report.dump(2) << '\n';
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnknownError(absl::StrCat(path, ": could not be written"));
}

}  // namespace tvq::bench
