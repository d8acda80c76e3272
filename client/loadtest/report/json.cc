#include <nlohmann/json.hpp>

#include "client/loadtest/report/report.h"

namespace tvq::loadtest {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kCdfPoints = 200;

Json Latency(const Histogram& histogram) {
  Json json = {{"count", histogram.count()}};
  if (histogram.count() == 0) return json;
  json["mean"] = histogram.mean() * 1e-9;
  json["min"] = ToSeconds(histogram.min());
  for (const Quantile& quantile : kQuantiles) {
    json[quantile.name] = ToSeconds(histogram.Percentile(quantile.value));
  }
  json["max"] = ToSeconds(histogram.max());
  return json;
}

// [[seconds, fraction of all that took at most so long], ...]
Json Cdf(const Histogram& histogram) {
  Json points = Json::array();
  int64_t seen = 0;
  double last = -1;
  for (const Histogram::Bucket& bucket : histogram.Buckets()) {
    seen += bucket.count;
    const double fraction = static_cast<double>(seen) / static_cast<double>(histogram.count());
    if (seen < histogram.count() && fraction - last < 1.0 / kCdfPoints && fraction < 0.99) continue;
    points.push_back({ToSeconds(bucket.value), fraction});
    last = fraction;
  }
  return points;
}

Json Step(const Summary& s) {
  Json json = {{"label", s.label},
               {"load", s.load},
               {"open_loop", s.open_loop},
               {"warm_up", s.warm_up},
               {"window", s.window},
               {"requests", s.requests},
               {"ok", s.ok},
               {"failed", s.failed},
               {"cancelled", s.cancelled},
               {"slow_readers", s.slow_readers},
               {"retries", s.retries},
               {"reconnects", s.reconnects},
               {"ordinary", s.ordinary},
               {"met_slo", s.met_slo},
               {"prompt_tokens", s.prompt_tokens},
               {"cached_tokens", s.cached_tokens},
               {"output_tokens", s.output_tokens},
               {"offered_rate", s.offered_rate},
               {"request_rate", s.request_rate},
               {"goodput", s.goodput},
               {"token_rate", s.token_rate},
               {"generator_cpu", s.generator_cpu},
               {"latency_note", LatencyNote(s)}};
  Json& latency = json["latency"];
  latency["ttft"] = Latency(s.ttft);
  latency["itl"] = Latency(s.itl);
  latency["tpot"] = Latency(s.tpot);
  latency["e2e"] = Latency(s.e2e);
  const std::string other = s.open_loop ? "_from_sending" : "_corrected";
  latency["ttft" + other] = Latency(s.other_ttft);
  latency["e2e" + other] = Latency(s.other_e2e);
  latency["send_lag"] = Latency(s.send_lag);
  latency["cancel"] = Latency(s.cancel);
  json["cdf"] = {{"ttft", Cdf(s.ttft)}, {"itl", Cdf(s.itl)}, {"e2e", Cdf(s.e2e)}};
  json["failures"] = Json::object();
  for (const auto& [status, stats] : s.failures) {
    json["failures"][status] = {{"requests", stats.requests},
                                {"attempts", stats.attempts},
                                {"with_retry_after", stats.with_retry_after},
                                {"latency", Latency(stats.latency)},
                                {"example", stats.example}};
  }
  json["operations"] = Json::object();
  for (const auto& [name, histogram] : s.operations) json["operations"][name] = Latency(histogram);
  Json& series = json["series"];
  series["interval"] = ToSeconds(s.interval);
  for (const char* name : {"arrived", "ok", "failed", "tokens"}) series[name] = Json::array();
  for (const Interval& interval : s.series) {
    series["arrived"].push_back(interval.arrived);
    series["ok"].push_back(interval.ended_ok);
    series["failed"].push_back(interval.failed);
    series["tokens"].push_back(interval.tokens);
  }
  return json;
}

}  // namespace

std::string AsJson(const Report& report) {
  Json json = {{"target", report.target},
               {"server", report.server},
               {"model", report.model},
               {"started", report.started},
               {"interrupted", report.interrupted}};
  json["settings"] = Json::object();
  for (const auto& [name, value] : report.settings) json["settings"][name] = value;
  json["slo"] = {{"ttft", nullptr}, {"itl", nullptr}};
  if (report.slo.ttft) json["slo"]["ttft"] = ToSeconds(*report.slo.ttft);
  if (report.slo.itl) json["slo"]["itl"] = ToSeconds(*report.slo.itl);
  json["histogram_relative_error"] = Histogram::kRelativeError;
  json["steps"] = Json::array();
  for (const Summary& step : report.steps) json["steps"].push_back(Step(step));
  // Messages of a server may hold any bytes.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tvq::loadtest
