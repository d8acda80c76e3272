#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/loadtest/report/report.h"
#include "client/loadtest/report/svg.h"

namespace tvq::loadtest {
namespace {

// Curves that can still be told apart, and steps whose course over time is worth a plot.
constexpr size_t kMaxCurves = 8;
constexpr size_t kMaxSeries = 16;

constexpr char kStyle[] = R"(
:root{--fg:#1c2330;--bg:#fff;--soft:#5b6577;--line:#d9dee7;
--c0:#1f77b4;--c1:#d9541e;--c2:#2a9d5c;--c3:#8e5bc0;--c4:#b8860b;--c5:#c2357a;--c6:#17868f;--c7:#6b6b6b}
@media(prefers-color-scheme:dark){:root{--fg:#e6e9ef;--bg:#14181f;--soft:#9aa4b5;--line:#313a48;
--c0:#6cb6f0;--c1:#ff9a6b;--c2:#6fd39b;--c3:#c3a2ec;--c4:#e3bf58;--c5:#f08abb;--c6:#62cdd6;--c7:#b5b5b5}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--fg);background:var(--bg);max-width:76rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}p.note,.key{color:var(--soft)}
table{border-collapse:collapse;font-variant-numeric:tabular-nums}td,th{padding:.2rem .7rem;text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left}.scroll{overflow-x:auto}
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(22rem,1fr));gap:1rem}figure{margin:0}figcaption{font-weight:600}
svg{width:100%;height:auto}svg text{font-size:11px;fill:var(--soft)}svg .grid{stroke:var(--line);stroke-width:1}
svg .axis{stroke:var(--soft);stroke-width:1}svg polyline{fill:none;stroke-width:1.8;stroke-linejoin:round}
svg .c0{stroke:var(--c0)}svg .c1{stroke:var(--c1)}svg .c2{stroke:var(--c2)}svg .c3{stroke:var(--c3)}
svg .c4{stroke:var(--c4)}svg .c5{stroke:var(--c5)}svg .c6{stroke:var(--c6)}svg .c7{stroke:var(--c7)}
.key span{display:inline-block;margin-right:1rem}.key i{display:inline-block;width:1rem;height:.2rem;margin-right:.35rem;vertical-align:middle}
)";

double Milliseconds(Nanos nanos) { return static_cast<double>(nanos) * 1e-6; }

std::string Figure(const Plot& plot) {
  std::string html = absl::StrCat("<figure><figcaption>", Escaped(plot.title), "</figcaption>\n",
                                  Svg(plot), "<div class=\"key\">");
  for (size_t i = 0; i < plot.curves.size(); ++i) {
    absl::StrAppend(&html, "<span><i style=\"background:var(--c", i % kMaxCurves, ")\"></i>",
                    Escaped(plot.curves[i].name), "</span>");
  }
  return html + "</div></figure>\n";
}

Plot Cdf(const Report& report, const std::string& title, const Histogram Summary::* measure) {
  Plot plot{.title = title, .x_label = "ms", .y_label = "part of all, %", .log_x = true};
  const size_t stride = (report.steps.size() + kMaxCurves - 1) / kMaxCurves;
  for (size_t i = 0; i < report.steps.size(); i += stride) {
    const Histogram& histogram = report.steps[i].*measure;
    Curve curve{.name = report.steps[i].label};
    int64_t seen = 0;
    double last = -1;
    for (const Histogram::Bucket& bucket : histogram.Buckets()) {
      seen += bucket.count;
      const double percent =
          100.0 * static_cast<double>(seen) / static_cast<double>(histogram.count());
      if (percent - last < 0.25 && seen < histogram.count()) continue;
      curve.points.emplace_back(std::max(1e-3, Milliseconds(bucket.value)), percent);
      last = percent;
    }
    if (histogram.count() > 0) plot.curves.push_back(std::move(curve));
  }
  return plot;
}

Plot Series(const Summary& step, bool tokens) {
  Plot plot{.title = absl::StrCat(step.label, tokens ? ": tokens" : ": requests"),
            .x_label = "seconds from the begin of the warm-up",
            .y_label = "per second"};
  const double width = ToSeconds(step.interval);
  const auto curve = [&](const char* name, int64_t Interval::* count) {
    Curve result{.name = name};
    for (size_t i = 0; i < step.series.size(); ++i) {
      result.points.emplace_back((static_cast<double>(i) + 0.5) * width,
                                 static_cast<double>(step.series[i].*count) / width);
    }
    plot.curves.push_back(std::move(result));
  };
  if (tokens) {
    curve("tokens", &Interval::tokens);
  } else {
    curve("due", &Interval::arrived);
    curve("failed", &Interval::failed);
    curve("ended well", &Interval::ended_ok);
  }
  return plot;
}

// Over the steps: what `value` makes of each.
template <typename Value>
Curve OverLoad(const Report& report, const std::string& name, const Value& value) {
  Curve curve{.name = name};
  for (const Summary& step : report.steps) curve.points.emplace_back(step.load, value(step));
  std::sort(curve.points.begin(), curve.points.end());
  return curve;
}

std::string LoadPlots(const Report& report) {
  const bool open = report.steps.front().open_loop;
  const std::string x = open ? "requests due per second" : "concurrent requests";
  Plot requests{
      .title = "Requests a second", .x_label = x, .y_label = "per second", .log_x = !open};
  requests.curves = {
      OverLoad(report, "ended well", [](const Summary& s) { return s.request_rate; }),
      OverLoad(report, "goodput", [](const Summary& s) { return s.goodput; })};
  Plot tokens{.title = "Tokens a second", .x_label = x, .y_label = "per second", .log_x = !open};
  tokens.curves = {OverLoad(report, "tokens", [](const Summary& s) { return s.token_rate; })};
  std::string html = Figure(requests) + Figure(tokens);
  const auto latency = [&](const char* title, const Histogram Summary::* measure) {
    Plot plot{.title = title, .x_label = x, .y_label = "ms", .log_x = !open, .log_y = true};
    for (const Quantile& quantile : kQuantiles) {
      plot.curves.push_back(OverLoad(report, quantile.name, [&](const Summary& s) {
        return Milliseconds((s.*measure).Percentile(quantile.value));
      }));
    }
    html += Figure(plot);
  };
  latency("Time to the first token", &Summary::ttft);
  latency("Mean time between tokens", &Summary::tpot);
  latency("End to end", &Summary::e2e);
  return absl::StrCat("<h2>Over the load</h2><div class=\"plots\">", html, "</div>\n");
}

std::string Row(const std::string& name, const Histogram& histogram) {
  if (histogram.count() == 0) return "";
  std::string row = absl::StrCat("<tr><td>", Escaped(name), "</td>");
  for (const Quantile& quantile : kQuantiles) {
    absl::StrAppendFormat(&row, "<td>%.2f</td>",
                          Milliseconds(histogram.Percentile(quantile.value)));
  }
  return row + absl::StrFormat("<td>%.2f</td><td>%.2f</td><td>%d</td></tr>\n",
                               Milliseconds(histogram.max()), histogram.mean() * 1e-6,
                               histogram.count());
}

std::string StepTable(const Summary& s) {
  std::string html = absl::StrFormat(
      "<h2>%s</h2><p>%d requests due, %d ok, %d failed, %d cancelled on purpose, %d retries%s; "
      "%.2f ok and %.2f within the SLO a second; %.1f tokens a second. "
      "This program took %.0f%% of a processor.</p>",
      Escaped(s.label), s.requests, s.ok, s.failed, s.cancelled, s.retries, ReconnectNote(s),
      s.request_rate, s.goodput, s.token_rate, 100 * s.generator_cpu);
  html += "<div class=\"scroll\"><table><tr><th>ms</th>";
  for (const Quantile& quantile : kQuantiles)
    absl::StrAppend(&html, "<th>", quantile.name, "</th>");
  html += "<th>max</th><th>mean</th><th>count</th></tr>\n";
  const char* other = s.open_loop ? ", from sending" : ", corrected";
  html += Row("first token", s.ttft) + Row("between tokens", s.itl) +
          Row("mean between tokens", s.tpot) + Row("end to end", s.e2e) +
          Row(absl::StrCat("first token", other), s.other_ttft) +
          Row(absl::StrCat("end to end", other), s.other_e2e) +
          Row("sent later than due", s.send_lag) + Row("cancelled until ended", s.cancel);
  for (const auto& [name, histogram] : s.operations) html += Row(name, histogram);
  for (const auto& [status, stats] : s.failures) {
    html += Row(absl::StrCat(status, ": ", stats.requests, " requests, ", stats.with_retry_after,
                             " of ", stats.attempts, " answers said when to retry"),
                stats.latency);
  }
  return absl::StrCat(html, "</table></div><p class=\"note\">", Escaped(LatencyNote(s)), "</p>\n");
}

}  // namespace

std::string AsHtml(const Report& report) {
  std::string html = absl::StrCat(
      "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
      "<meta name=\"viewport\" content=\"width=device-width\"><title>tvq-loadtest: ",
      Escaped(report.model), "</title><style>", kStyle, "</style></head><body>\n<h1>",
      Escaped(report.model), " under load</h1>\n<p>", Escaped(report.target), ", ",
      Escaped(report.server), ", ", Escaped(report.started),
      report.interrupted ? ", interrupted" : "", "</p>\n<p class=\"note\">");
  for (const auto& [name, value] : report.settings) {
    absl::StrAppend(&html, "--", Escaped(name), " ", Escaped(value), " ");
  }
  html += "</p>\n";
  if (report.steps.size() > 1) html += LoadPlots(report);
  absl::StrAppend(&html, "<h2>Latencies: how many took at most so long</h2><div class=\"plots\">",
                  Figure(Cdf(report, "Time to the first token", &Summary::ttft)),
                  Figure(Cdf(report, "Mean time between tokens", &Summary::tpot)),
                  Figure(Cdf(report, "End to end", &Summary::e2e)), "</div>\n");
  for (size_t i = 0; i < report.steps.size(); ++i) {
    html += StepTable(report.steps[i]);
    if (i >= kMaxSeries) continue;
    absl::StrAppend(&html, "<div class=\"plots\">", Figure(Series(report.steps[i], false)),
                    Figure(Series(report.steps[i], true)), "</div>\n");
  }
  return html + "</body></html>\n";
}

}  // namespace tvq::loadtest
