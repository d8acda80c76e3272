#ifndef TVQ_CLIENT_LOADTEST_STATISTICS_SUMMARY_H_
#define TVQ_CLIENT_LOADTEST_STATISTICS_SUMMARY_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/loadtest/statistics/histogram.h"
#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

// What a request must keep to count as good; unset: anything will do.
struct Slo {
  std::optional<Nanos> ttft;  // to the first token
  std::optional<Nanos> itl;   // between tokens, the mean over a request
  bool set() const { return ttft || itl; }
};

// What one kind of refusal or failure looked like.
struct FailureStats {
  int64_t requests = 0;          // that ended so
  int64_t attempts = 0;          // that were answered so, those that were repeated included
  int64_t with_retry_after = 0;  // attempts whose answer said when to come back
  Histogram latency;             // from sending an attempt to its answer
  std::string example;           // a message
};

// One interval of the time series.
struct Interval {
  int64_t arrived = 0, ended_ok = 0, failed = 0, tokens = 0;
};

// What a step measured: `window` seconds of a load, after the warm-up.
//
// Latencies are those of requests that were due within the window and went well, slow readers and
// planned cancellations left out; but `itl` has the gaps of those that failed later, too.
// Throughput is what happened within the window, whenever the request was due.
struct Summary {
  std::string label;  // "rate 20/s", "concurrency 8"
  double load = 0;    // its number: arrivals per second, or users
  bool open_loop = false;
  double window = 0;  // seconds

  // Requests that were due within the window. requests = ok + failed + cancelled.
  int64_t requests = 0, ok = 0, failed = 0;
  int64_t cancelled = 0;                         // as planned, in mid-stream
  int64_t slow_readers = 0;                      // among them all
  int64_t retries = 0;                           // attempts after the first
  int64_t reconnects = 0;                        // sent again as a kept connection was closed
  int64_t ordinary = 0;                          // neither slow readers nor planned cancellations
  int64_t met_slo = 0;                           // of `ordinary`
  int64_t prompt_tokens = 0, cached_tokens = 0;  // of `ok`
  int64_t output_tokens = 0;                     // of all

  // Per second of the window.
  double offered_rate = 0;  // requests that were due
  double request_rate = 0;  // requests that ended well
  double goodput = 0;       // ordinary ones that also met the SLO
  double token_rate = 0;    // tokens that came

  // In the open loop from when the request was due, in the closed loop from when it was sent.
  Histogram ttft, e2e;
  Histogram itl;   // gap before each token; 0 for tokens that came together with another
  Histogram tpot;  // mean gap of each request
  // Open loop: the same from when it was sent. Closed loop: corrected for coordinated omission, the
  // interval being the median of e2e and the pause between requests.
  Histogram other_ttft, other_e2e;
  // Open loop: how much later than due requests were sent. Large: this machine could not keep up.
  Histogram send_lag;
  Histogram cancel;  // from a planned cancellation to the end of the call

  std::map<std::string, FailureStats> failures;  // by status
  // Calls on sessions that went well, by name; a deletion from the first attempt.
  std::map<std::string, Histogram> operations;

  Nanos interval = kSecond;      // of the series
  std::vector<Interval> series;  // from the begin of the warm-up
  double warm_up = 0;            // seconds
  double generator_cpu = 0;      // seconds of CPU that this program took per second of the step
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_STATISTICS_SUMMARY_H_
