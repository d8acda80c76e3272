#include "tests/bench/asks.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <thread>
#include <utility>

#include "absl/synchronization/notification.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"

namespace tvq::bench {
namespace {

double Milliseconds(Arrivals::Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

// Notes the arrivals and wakes who waits for the end.
class Sink : public RequestSink {
 public:
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta delta) override {
    std::vector<int32_t> tokens;
    tokens.reserve(delta.tokens.size());
    for (const TokenEvent& event : delta.tokens) tokens.push_back(event.token.id);
    if (!tokens.empty()) arrivals_.Add(tokens);
  }
  void OnEnd(const absl::Status& status, const Usage&) override {
    status_ = status;
    done_.Notify();
  }

  absl::StatusOr<Arrivals> Wait() {
    done_.WaitForNotification();
    if (!status_.ok()) return status_;
    return arrivals_;
  }

 private:
  Arrivals arrivals_;
  absl::Status status_;
  absl::Notification done_;
};

// Of the tokens of `counted`, while all of `requests` generate.
double MsPerTokenOf(std::span<const Arrivals> requests, std::span<const Arrivals> counted) {
  Arrivals::Clock::time_point begin = requests.front().times().front(),
                              end = requests.front().times().back();
  for (const Arrivals& request : requests) {
    begin = std::max(begin, request.times().front());
    end = std::min(end, request.times().back());
  }
  int64_t tokens = 0;
  for (const Arrivals& request : counted) {
    tokens += std::count_if(request.times().begin(), request.times().end(),
                            [&](const auto& time) { return time > begin && time <= end; });
  }
  return tokens == 0 ? 0 : Milliseconds(end - begin) / static_cast<double>(tokens);
}

absl::StatusOr<Arrivals> AskOnce(Engine& engine, const Ask& ask) {
  auto sink = std::make_shared<Sink>();
  Request request;
  request.id = "bench";
  request.model = kAskedModel;
  request.prompt = ask.prompt;
  request.sampling.max_tokens = static_cast<int32_t>(ask.max_tokens);
  request.sampling.seed = kAskSeed;
  request.sampling.temperature = ask.temperature;
  request.sampling.ignore_eos = true;
  request.sink = sink;
  const absl::StatusOr<RequestHandle> handle = engine.Submit(std::move(request));
  if (!handle.ok()) return handle.status();
  return sink->Wait();
}

}  // namespace

void Arrivals::Add(std::span<const int32_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  times_.resize(tokens_.size(), Clock::now());
}

double Arrivals::FirstMs() const { return Milliseconds(times_.front() - sent_); }

double MsPerToken(const Together& requests) { return MsPerTokenOf(requests, requests); }

double MsPerTokenOf(const Together& requests, size_t one) {
  return MsPerTokenOf(requests, std::span(requests).subspan(one, 1));
}

absl::StatusOr<Together> AskModel(Model& model, Device& device, const Ask& ask) {
  Together requests(static_cast<size_t>(ask.together));
  absl::StatusOr<Sessions> sessions = Sessions::Create(model, device, ask.together);
  if (!sessions.ok()) return sessions.status();
  if (absl::Status s = sessions->Prefill(ask.prompt); !s.ok()) return s;
  for (int64_t i = 1;; ++i) {
    for (size_t r = 0; r < requests.size(); ++r) requests[r].Add(sessions->pending().subspan(r, 1));
    if (i == ask.max_tokens) return requests;
    if (absl::Status s = sessions->Step(); !s.ok()) return s;
  }
}

absl::StatusOr<Together> AskEngine(Engine& engine, const Ask& ask) {
  return AskAtOnce(ask, [&] { return AskOnce(engine, ask); });
}

absl::StatusOr<Together> AskAtOnce(const Ask& ask,
                                   const std::function<absl::StatusOr<Arrivals>()>& one) {
  std::vector<absl::StatusOr<Arrivals>> answers(static_cast<size_t>(ask.together));
  std::vector<std::thread> threads;
  threads.reserve(answers.size());
  for (absl::StatusOr<Arrivals>& answer : answers) {
    threads.emplace_back([&answer, &one] { answer = one(); });
  }
  for (std::thread& thread : threads) thread.join();
  Together requests;
  requests.reserve(answers.size());
  for (absl::StatusOr<Arrivals>& answer : answers) {
    if (!answer.ok()) return answer.status();
    requests.push_back(*std::move(answer));
  }
  return requests;
}

absl::Status Side::Add(const absl::StatusOr<Together>& requests) {
  if (!requests.ok()) return requests.status();
  std::vector<double> firsts;
  firsts.reserve(requests->size());
  tokens.clear();
  for (const Arrivals& request : *requests) {
    firsts.push_back(request.FirstMs());
    tokens.push_back(request.tokens());
  }
  first.push_back(Median(firsts));
  per_token.push_back(MsPerToken(*requests));
  if (per_token.back() > 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "the requests never all generated at once; ask for more --max-tokens");
}

std::vector<double> PercentOf(const Side& other, const Side& side) {
  std::vector<double> percent;
  percent.reserve(side.per_token.size());
  for (size_t i = 0; i < side.per_token.size(); ++i) {
    percent.push_back(100 * other.per_token[i] / side.per_token[i]);
  }
  return percent;
}

void PrintSidesHead() {
  std::printf("%-16s %10s %10s %17s %12s\n", "", "tokens/s", "ms/token", "of rounds",
              "ms to first");
}

Json ReportSide(const char* name, const Side& side) {
  const double ms = Median(side.per_token);
  std::printf("%-16s %10.1f %10.3f %8.3f-%-8.3f %12.2f\n", name, 1e3 / ms, ms,
              Quantile(side.per_token, 0), Quantile(side.per_token, 1), Median(side.first));
  return {{"tokens_per_second", 1e3 / ms},
          {"ms_per_token", ms},
          {"ms_per_token_min", Quantile(side.per_token, 0)},
          {"ms_per_token_max", Quantile(side.per_token, 1)},
          {"ms_to_first_token", Median(side.first)}};
}

}  // namespace tvq::bench
