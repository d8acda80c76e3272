#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/loadtest/report/report.h"

namespace tvq::loadtest {
namespace {

double Milliseconds(double nanos) { return nanos * 1e-6; }

std::string LatencyRow(const std::string& name, const Histogram& histogram) {
  if (histogram.count() == 0) return "";
  std::string row = absl::StrFormat("  %-26s", name);
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&row, "%10.2f",
                          Milliseconds(static_cast<double>(histogram.Percentile(quantile.value))));
  }
  absl::StrAppendFormat(&row, "%10.2f%10.2f%9d\n",
                        Milliseconds(static_cast<double>(histogram.max())),
                        Milliseconds(histogram.mean()), histogram.count());
  return row;
}

std::string Header(const char* first) {
  std::string row = absl::StrFormat("  %-26s", first);
  for (const Quantile& quantile : kQuantiles) absl::StrAppendFormat(&row, "%10s", quantile.name);
  return row + absl::StrFormat("%10s%10s%9s\n", "max", "mean", "count");
}

std::string Failures(const Summary& summary) {
  if (summary.failures.empty()) return "";
  std::string text = absl::StrCat("\n", Header("answers other than well, ms"));
  for (const auto& [status, stats] : summary.failures) {
    text += LatencyRow(status, stats.latency);
    absl::StrAppendFormat(&text, "    %d requests ended so; %d of %d answers said when to retry\n",
                          stats.requests, stats.with_retry_after, stats.attempts);
    if (!stats.example.empty()) absl::StrAppend(&text, "    e.g. ", stats.example, "\n");
  }
  return text;
}

std::string Block(const Summary& s, const Slo& slo) {
  std::string text = absl::StrFormat(
      "%s, %.1f s after %.1f s of warm-up\n"
      "  requests   %d due, %d ok, %d failed, %d cancelled on purpose; %d retries%s\n"
      "  per second %.2f requests due, %.2f ok, %.1f tokens",
      s.label, s.window, s.warm_up, s.requests, s.ok, s.failed, s.cancelled, s.retries,
      ReconnectNote(s), s.offered_rate, s.request_rate, s.token_rate);
  if (slo.set()) {
    absl::StrAppendFormat(
        &text, "; goodput %.2f requests (%.1f%% of the %d to be judged were within the SLO)",
        s.goodput,
        100.0 * static_cast<double>(s.met_slo) /
            static_cast<double>(std::max<int64_t>(1, s.ordinary)),
        s.ordinary);
  }
  const auto mean = [](int64_t sum, int64_t count) {
    return static_cast<double>(sum) / static_cast<double>(std::max<int64_t>(1, count));
  };
  absl::StrAppendFormat(
      &text, "\n  a request  %.1f prompt tokens (%.1f cached), %.1f output tokens\n",
      mean(s.prompt_tokens, s.ok), mean(s.cached_tokens, s.ok), mean(s.output_tokens, s.requests));
  absl::StrAppendFormat(&text, "  this program took %.0f%% of a processor\n\n",
                        100 * s.generator_cpu);
  text += Header("ms");
  text += LatencyRow("first token", s.ttft);
  text += LatencyRow("between tokens", s.itl);
  text += LatencyRow("mean between tokens", s.tpot);
  text += LatencyRow("end to end", s.e2e);
  const char* other = s.open_loop ? ", from sending" : ", corrected";
  text += LatencyRow(absl::StrCat("first token", other), s.other_ttft);
  text += LatencyRow(absl::StrCat("end to end", other), s.other_e2e);
  text += LatencyRow("sent later than due", s.send_lag);
  text += LatencyRow("cancelled until ended", s.cancel);
  for (const auto& [name, histogram] : s.operations) text += LatencyRow(name, histogram);
  return text + Failures(s) + "  " + LatencyNote(s) + "\n";
}

std::string Comparison(const Report& report) {
  std::string text = absl::StrFormat("%-18s%9s%8s%9s%11s%9s%21s%21s%21s\n", "", "ok/s", "failed",
                                     "goodput", "tokens/s", "gen CPU", "first token p50, p99",
                                     "between p50, p99", "end to end p50, p99");
  const auto pair = [](const Histogram& histogram) {
    return absl::StrFormat("%.2f, %.2f",
                           Milliseconds(static_cast<double>(histogram.Percentile(0.5))),
                           Milliseconds(static_cast<double>(histogram.Percentile(0.99))));
  };
  for (const Summary& s : report.steps) {
    absl::StrAppendFormat(&text, "%-18s%9.2f%8d%9.2f%11.1f%8.0f%%%21s%21s%21s\n", s.label,
                          s.request_rate, s.failed, s.goodput, s.token_rate, 100 * s.generator_cpu,
                          pair(s.ttft), pair(s.itl), pair(s.e2e));
  }
  return text;
}

}  // namespace

std::string LatencyNote(const Summary& summary) {
  if (summary.open_loop) {
    return "Latencies count from when a request was due, whatever kept it from being sent.";
  }
  return "Closed loop: while the server stalls no request is sent, so the raw figures miss those "
         "that "
         "other clients would have sent meanwhile; the corrected ones put them in, one for each "
         "median time of a request.";
}

std::string ReconnectNote(const Summary& summary) {
  if (summary.reconnects == 0) return "";
  return absl::StrCat(", ", summary.reconnects, " sent again as the kept connection was closed");
}

std::string AsTable(const Report& report) {
  std::string text =
      absl::StrCat(report.target, ", model ", report.model, "\n", report.server, "\n");
  for (const Summary& step : report.steps) absl::StrAppend(&text, "\n", Block(step, report.slo));
  if (report.steps.size() > 1) absl::StrAppend(&text, "\n", Comparison(report));
  if (report.interrupted) text += "\nInterrupted: the figures are of what ran until then.\n";
  return text;
}

}  // namespace tvq::loadtest
