// The same requests to several sides, and when their tokens came: what `engine` and `serve` share.
#ifndef TVQ_TESTS_BENCH_ASKS_H_
#define TVQ_TESTS_BENCH_ASKS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "tests/bench/report.h"

namespace tvq::bench {

// When the tokens of one request arrived, which is sent when this is made.
class Arrivals {
 public:
  using Clock = std::chrono::steady_clock;

  Arrivals() = default;
  // Of a request that was sent at `sent`, and whose tokens came at `times`.
  Arrivals(Clock::time_point sent, std::vector<int32_t> tokens,
           std::vector<Clock::time_point> times)
      : sent_(sent), tokens_(std::move(tokens)), times_(std::move(times)) {}

  // Tokens that came together, at least one.
  void Add(std::span<const int32_t> tokens);

  const std::vector<int32_t>& tokens() const { return tokens_; }
  const std::vector<Clock::time_point>& times() const { return times_; }  // of each token
  Clock::time_point sent() const { return sent_; }
  double FirstMs() const;

 private:
  Clock::time_point sent_ = Clock::now();
  std::vector<int32_t> tokens_;
  std::vector<Clock::time_point> times_;
};

// What requests that were sent together got.
using Together = std::vector<Arrivals>;

// Milliseconds a token, of all of them, while all generate: from the last one's first arrival, at
// which several tokens may have come, to the first one's end. 0 if they never all did.
double MsPerToken(const Together& requests);
// The same of the tokens of request `one` alone.
double MsPerTokenOf(const Together& requests, size_t one);

struct Ask {
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
  int64_t together = 1;  // requests
  float temperature = 1;
};

inline constexpr char kAskedModel[] = "bench";
inline constexpr uint64_t kAskSeed = 1;

// Nothing but the model: new sessions, the prompt in each, then one step after another.
absl::StatusOr<Together> AskModel(Model& model, Device& device, const Ask& ask);

// The request through the engine, which serves kAskedModel, from one thread for each.
absl::StatusOr<Together> AskEngine(Engine& engine, const Ask& ask);

// `one` once for each request, from a thread of its own.
absl::StatusOr<Together> AskAtOnce(const Ask& ask,
                                   const std::function<absl::StatusOr<Arrivals>()>& one);

// One side, by round.
struct Side {
  std::vector<double> first, per_token;      // milliseconds, the median of a round's requests
  std::vector<std::vector<int32_t>> tokens;  // of each request of the last round

  absl::Status Add(const absl::StatusOr<Together>& requests);
};

// Percent of `other`'s tokens a second that `side` has, by round.
std::vector<double> PercentOf(const Side& other, const Side& side);

void PrintSidesHead();
Json ReportSide(const char* name, const Side& side);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_ASKS_H_
