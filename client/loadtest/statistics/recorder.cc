#include "client/loadtest/statistics/recorder.h"

#include <algorithm>

namespace tvq::loadtest {
namespace {

constexpr int kMaxIntervals = 240;  // of the series: what a plot can show
constexpr Nanos kShortestInterval = 100 * kMillisecond;

// 0 for a request of one token.
Nanos MeanGap(const RequestRecord& request) {
  if (request.tokens < 2) return 0;
  return (request.last_token - request.first_token) / (request.tokens - 1);
}

}  // namespace

Recorder::Recorder(const Options& options)
    : options_(options), begin_(options.warm_up), end_(options.warm_up + options.duration) {
  summary_.open_loop = options.open_loop;
  summary_.window = ToSeconds(options.duration);
  summary_.warm_up = ToSeconds(options.warm_up);
  // Whole multiples of the shortest, so that a plot's seconds are even.
  summary_.interval =
      (end_ / kMaxIntervals + kShortestInterval) / kShortestInterval * kShortestInterval;
  summary_.series.resize((end_ + summary_.interval - 1) / summary_.interval);
}

void Recorder::EndAt(Nanos time) {
  end_ = std::clamp(time, begin_, end_);
  summary_.window = ToSeconds(end_ - begin_);
}

Interval* Recorder::At(Nanos time) {
  if (time < 0 || time >= end_) return nullptr;
  return &summary_.series[time / summary_.interval];
}

void Recorder::Arrived(Nanos intended) {
  ++totals_.arrived;
  if (Interval* interval = At(intended)) ++interval->arrived;
}

void Recorder::Tokens(Nanos now, int64_t count) {
  totals_.tokens += count;
  if (Interval* interval = At(now)) interval->tokens += count;
  if (Measured(now)) tokens_in_window_ += count;
}

void Recorder::Gap(Nanos gap, int64_t count) {
  if (count <= 0) return;
  summary_.itl.Record(gap);
  summary_.itl.Record(0, count - 1);
}

void Recorder::Refused(Nanos intended, const std::string& status, std::string_view message,
                       Nanos latency, bool retry_after) {
  if (!Measured(intended)) return;
  FailureStats& stats = summary_.failures[status];
  ++stats.attempts;
  stats.with_retry_after += retry_after ? 1 : 0;
  stats.latency.Record(latency);
  if (stats.example.empty()) stats.example = message;
}

void Recorder::Cancelled(Nanos intended, Nanos latency) {
  if (Measured(intended)) summary_.cancel.Record(latency);
}

void Recorder::Operation(Nanos intended, const std::string& name, Nanos latency) {
  if (Measured(intended)) summary_.operations[name].Record(latency);
}

void Recorder::Reconnected(Nanos intended) { summary_.reconnects += Measured(intended) ? 1 : 0; }

bool Recorder::MeetsSlo(const RequestRecord& request) const {
  const Nanos from = options_.open_loop ? request.intended : request.sent;
  if (options_.slo.ttft && request.first_token - from > *options_.slo.ttft) return false;
  return !options_.slo.itl || MeanGap(request) <= *options_.slo.itl;
}

void Recorder::RecordLatencies(const RequestRecord& request) {
  const Nanos from_due = options_.open_loop ? request.intended : request.sent;
  summary_.e2e.Record(request.end - from_due);
  if (request.tokens > 0) summary_.ttft.Record(request.first_token - from_due);
  if (request.tokens > 1) summary_.tpot.Record(MeanGap(request));
  if (!options_.open_loop) return;
  summary_.other_e2e.Record(request.end - request.sent);
  if (request.tokens > 0) summary_.other_ttft.Record(request.first_token - request.sent);
}

void Recorder::Ended(const RequestRecord& request) {
  using Result = RequestRecord::Result;
  const bool ok = request.result == Result::kOk, failed = request.result == Result::kFailed;
  // Cancels can never be good, and slow readers break any SLO themselves: neither is judged.
  const bool ordinary = request.behaviour == Behaviour::kNormal;
  const bool good = ok && ordinary && MeetsSlo(request);
  ++totals_.ended;
  totals_.failed += failed ? 1 : 0;
  if (Interval* interval = At(request.end)) {
    interval->ended_ok += ok ? 1 : 0;
    interval->failed += failed ? 1 : 0;
  }
  if (Measured(request.end)) {
    ok_in_window_ += ok ? 1 : 0;
    good_in_window_ += good ? 1 : 0;
  }
  if (!Measured(request.intended)) return;
  ++summary_.requests;
  summary_.ok += ok ? 1 : 0;
  summary_.failed += failed ? 1 : 0;
  summary_.cancelled += request.result == Result::kCancelled ? 1 : 0;
  summary_.slow_readers += request.behaviour == Behaviour::kSlowReader ? 1 : 0;
  summary_.ordinary += ordinary ? 1 : 0;
  summary_.met_slo += good ? 1 : 0;
  summary_.retries += request.attempts - 1;
  summary_.prompt_tokens += ok ? request.prompt_tokens : 0;
  summary_.cached_tokens += ok ? request.cached_tokens : 0;
  summary_.output_tokens += request.tokens;
  if (failed) ++summary_.failures[request.status].requests;
  if (options_.open_loop) summary_.send_lag.Record(request.sent - request.intended);
  if (ok && ordinary) RecordLatencies(request);
}

Summary Recorder::Finish() {
  Summary summary = summary_;
  const auto rate = [&](int64_t count) {
    return summary.window > 0 ? static_cast<double>(count) / summary.window : 0;
  };
  summary.offered_rate = rate(summary.requests);
  summary.request_rate = rate(ok_in_window_);
  summary.goodput = rate(good_in_window_);
  summary.token_rate = rate(tokens_in_window_);
  const Nanos interval = summary.e2e.Percentile(0.5) + options_.think_time;
  if (!options_.open_loop && interval > 0) {
    summary.other_e2e = summary.e2e.CorrectedForOmission(interval);
    summary.other_ttft = summary.ttft.CorrectedForOmission(interval);
  }
  return summary;
}

}  // namespace tvq::loadtest
