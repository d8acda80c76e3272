// tvq-bench serve: the same request in turns to the model, to the engine and through gRPC, over a
// socket of this machine, to a server in this process that runs the same engine. Client, server and
// model share the machine's cores, as on a small server.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "tests/bench/benches.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"
#include "tvq/v1/generation.grpc.pb.h"

namespace tvq::bench {
namespace {

constexpr char kModelName[] = "bench";
constexpr uint64_t kSeed = 1;

// When tokens arrived, in seconds since the request was sent.
class Arrivals {
 public:
  // Tokens that came together, at least one.
  void Add(std::span<const int32_t> tokens) {
    tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
    seconds_.resize(tokens_.size(), watch_.Seconds());
  }
  const std::vector<int32_t>& tokens() const { return tokens_; }
  double FirstMs() const { return seconds_.front() * 1e3; }
  // Of the tokens after the first arrival, at which several may have come; 0 if all came at once.
  double MsPerToken() const {
    const auto later = std::upper_bound(seconds_.begin(), seconds_.end(), seconds_.front());
    const auto count = static_cast<double>(seconds_.end() - later);
    return count == 0 ? 0 : (seconds_.back() - seconds_.front()) * 1e3 / count;
  }

 private:
  Stopwatch watch_;
  std::vector<int32_t> tokens_;
  std::vector<double> seconds_;
};

// Notes the arrivals and wakes who waits for the end.
class Sink : public RequestSink {
 public:
  void OnPrompt(int64_t, std::vector<TokenEvent>) override {}
  void OnDelta(Delta delta) override {
    std::vector<int32_t> tokens;
    for (const TokenEvent& event : delta.tokens) tokens.push_back(event.token.id);
    if (!tokens.empty()) arrivals_.Add(tokens);
  }
  void OnDone(const absl::Status& status, const Usage&) override {
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

absl::StatusOr<Arrivals> AskEngine(Engine& engine, const std::vector<int32_t>& prompt,
                                   int64_t max_tokens) {
  auto sink = std::make_shared<Sink>();
  Request request;
  request.id = "bench";
  request.model = kModelName;
  request.prompt = prompt;
  request.sampling.max_tokens = static_cast<int32_t>(max_tokens);
  request.sampling.seed = kSeed;
  request.sampling.ignore_eos = true;
  request.sink = sink;
  const absl::StatusOr<RequestHandle> handle = engine.Submit(std::move(request));
  if (!handle.ok()) return handle.status();
  return sink->Wait();
}

absl::StatusOr<Arrivals> AskServer(v1::GenerationService::Stub& stub,
                                   const std::vector<int32_t>& prompt, int64_t max_tokens) {
  v1::GenerateRequest request;
  request.set_model(kModelName);
  request.mutable_token_ids()->mutable_ids()->Add(prompt.begin(), prompt.end());
  v1::SamplingParams& sampling = *request.mutable_sampling();
  // Set, so that a model's own defaults do not count.
  sampling.set_temperature(1);
  sampling.set_top_k(0);
  sampling.set_top_p(1);
  sampling.set_min_p(0);
  sampling.set_presence_penalty(0);
  sampling.set_frequency_penalty(0);
  sampling.set_repetition_penalty(1);
  sampling.set_max_tokens(static_cast<int32_t>(max_tokens));
  sampling.set_seed(kSeed);
  sampling.set_ignore_eos(true);

  Arrivals arrivals;
  grpc::ClientContext context;
  const auto reader = stub.Generate(&context, request);
  for (v1::GenerateResponse response; reader->Read(&response);) {
    for (const v1::SampleDelta& delta : response.deltas()) {
      if (!delta.token_ids().empty()) {
        arrivals.Add({delta.token_ids().data(), static_cast<size_t>(delta.token_ids_size())});
      }
    }
  }
  const grpc::Status status = reader->Finish();
  if (status.ok()) return arrivals;
  return absl::UnknownError(absl::StrCat("Generate: ", status.error_message()));
}

// Nothing but the model: a new session, the prompt, then one step after another.
absl::StatusOr<Arrivals> AskModel(Model& model, Device& device, const std::vector<int32_t>& prompt,
                                  int64_t max_tokens) {
  Arrivals arrivals;
  absl::StatusOr<Sessions> session = Sessions::Create(model, device, 1);
  if (!session.ok()) return session.status();
  if (absl::Status s = session->Prefill(prompt); !s.ok()) return s;
  for (int64_t i = 1;; ++i) {
    arrivals.Add(session->pending());
    if (i == max_tokens) return arrivals;
    if (absl::Status s = session->Step(); !s.ok()) return s;
  }
}

// Milliseconds of one side, by round.
struct Side {
  std::vector<double> first, per_token;
  std::vector<int32_t> tokens;  // of the last round

  absl::Status Add(const absl::StatusOr<Arrivals>& arrivals) {
    if (!arrivals.ok()) return arrivals.status();
    first.push_back(arrivals->FirstMs());
    per_token.push_back(arrivals->MsPerToken());
    tokens = arrivals->tokens();
    return absl::OkStatus();
  }
};

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

void Report(const Side& model, const Side& engine, const Side& grpc, Json& report) {
  std::printf("%-16s %10s %10s %17s %12s\n", "", "tokens/s", "ms/token", "of rounds",
              "ms to first");
  report["model_alone"] = ReportSide("model alone", model);
  report["engine"] = ReportSide("engine", engine);
  report["grpc"] = ReportSide("through gRPC", grpc);
  std::vector<double> percent, added, first;
  for (size_t i = 0; i < engine.first.size(); ++i) {
    percent.push_back(100 * engine.per_token[i] / grpc.per_token[i]);
    added.push_back((grpc.per_token[i] - engine.per_token[i]) * 1e3);
    first.push_back(grpc.first[i] - engine.first[i]);
  }
  std::printf(
      "gRPC keeps %.1f%% of the engine's tokens/s, adds %.0f us a token (quartiles %.0f to "
      "%.0f) and %.2f ms to the first\n",
      Median(percent), Median(added), Quantile(added, 0.25), Quantile(added, 0.75), Median(first));
  report["percent_of_engine"] = Median(percent);
  report["us_added_per_token"] = Median(added);
  report["us_added_per_token_quartiles"] = {Quantile(added, 0.25), Quantile(added, 0.75)};
  report["ms_added_to_first_token"] = Median(first);
}

}  // namespace

absl::Status BenchServe(Subject& subject, const Options& options, Json& report) {
  const std::vector<int32_t> prompt =
      PromptTokens(options.prompt_tokens, subject.config.common.vocab_size);
  report["prompt_tokens"] = options.prompt_tokens;
  report["max_tokens"] = options.max_tokens;
  Model& model = *subject.model;
  // From here on the model is the engine's, and ours only while the engine has nothing to do.
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      {{kModelName, std::shared_ptr<Model>(std::move(subject.model))}}, EngineOptions());
  if (!engine.ok()) return engine.status();
  ServerOptions server_options;
  server_options.port = 0;
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(engine->get(), nullptr, ServerDescription(), server_options);
  if (!server.ok()) return server.status();
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", (*server)->port()),
                                           grpc::InsecureChannelCredentials());
  const auto stub = v1::GenerationService::NewStub(channel);

  Side alone, bare, remote, warm_up;
  absl::Status s = warm_up.Add(AskEngine(**engine, prompt, options.max_tokens));
  s.Update(warm_up.Add(AskServer(*stub, prompt, options.max_tokens)));
  for (int64_t round = 0; s.ok() && round < options.rounds; ++round) {
    s.Update(alone.Add(AskModel(model, *subject.device, prompt, options.max_tokens)));
    s.Update(bare.Add(AskEngine(**engine, prompt, options.max_tokens)));
    s.Update(remote.Add(AskServer(*stub, prompt, options.max_tokens)));
  }
  if (!s.ok()) return s;
  if (bare.tokens != remote.tokens) {
    return absl::AbortedError("gRPC delivered other tokens than the engine made");
  }
  Report(alone, bare, remote, report);
  return absl::OkStatus();
}

}  // namespace tvq::bench
