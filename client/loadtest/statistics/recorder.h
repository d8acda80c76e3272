#ifndef TVQ_CLIENT_LOADTEST_STATISTICS_RECORDER_H_
#define TVQ_CLIENT_LOADTEST_STATISTICS_RECORDER_H_

#include <string>
#include <string_view>

#include "client/loadtest/statistics/summary.h"
#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

enum class Behaviour { kNormal, kSlowReader, kCancels };

// A request that has ended, by whatever attempt. Times count from the begin of the step.
struct RequestRecord {
  enum class Result { kOk, kFailed, kCancelled };

  Behaviour behaviour = Behaviour::kNormal;
  Result result = Result::kOk;
  std::string status;  // of a failure
  Nanos intended = 0;  // when it was due
  Nanos sent = 0;      // the first attempt
  Nanos first_token = 0, last_token = 0, end = 0;
  int64_t tokens = 0;  // that came; 0: first_token and last_token mean nothing
  int64_t prompt_tokens = 0, cached_tokens = 0;
  int attempts = 1;
};

// Takes what happens in one step and sums it up. One thread.
class Recorder {
 public:
  struct Options {
    Nanos warm_up = 0, duration = kSecond;  // the window begins when the warm-up ends
    bool open_loop = false;
    Nanos think_time = 0;  // closed loop: the pause of a user between requests
    Slo slo;
  };
  explicit Recorder(const Options& options);

  // Whether latencies of a request that was due then count.
  bool Measured(Nanos intended) const { return intended >= begin_ && intended < end_; }

  void Arrived(Nanos intended);
  // Tokens came at `now`, of any request.
  void Tokens(Nanos now, int64_t count);
  // `count` tokens of a measured request came together, `gap` after those before; 0: none. How the
  // request will end is not known yet.
  void Gap(Nanos gap, int64_t count);
  // An attempt ended otherwise than well.
  void Refused(Nanos intended, const std::string& status, std::string_view message, Nanos latency,
               bool retry_after);
  // What belongs to a request that was due at `intended`: a planned cancellation, a call on its
  // session, a request that went out again on a new connection.
  void Cancelled(Nanos intended, Nanos latency);
  void Operation(Nanos intended, const std::string& name, Nanos latency);
  void Reconnected(Nanos intended);
  void Ended(const RequestRecord& request);

  // The window ends early.
  void EndAt(Nanos time);

  // Since the begin of the step, warm-up included; for the progress line.
  struct Totals {
    int64_t arrived = 0, ended = 0, failed = 0, tokens = 0;
  };
  const Totals& totals() const { return totals_; }

  Summary Finish();

 private:
  Interval* At(Nanos time);
  void RecordLatencies(const RequestRecord& request);
  bool MeetsSlo(const RequestRecord& request) const;

  const Options options_;
  const Nanos begin_;
  Nanos end_;  // of the window
  Summary summary_;
  Totals totals_;
  int64_t ok_in_window_ = 0, good_in_window_ = 0, tokens_in_window_ = 0;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_STATISTICS_RECORDER_H_
