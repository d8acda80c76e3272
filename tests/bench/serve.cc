// tvq-bench serve: the same requests in turns to the model, to the engine and through gRPC, over a
// socket of this machine, to a server in this process that runs the same engine. Client, server and
// model share the machine's cores, as on a small server.

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/rpc/server.h"
#include "tests/bench/asks.h"
#include "tests/bench/benches.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"
#include "tvq/v1/generation.grpc.pb.h"

namespace tvq::bench {
namespace {

absl::StatusOr<Arrivals> AskOnce(v1::GenerationService::Stub& stub, const Ask& ask) {
  v1::GenerateRequest request;
  request.set_model(kAskedModel);
  request.mutable_token_ids()->mutable_ids()->Add(ask.prompt.begin(), ask.prompt.end());
  v1::SamplingParams& sampling = *request.mutable_sampling();
  // Set, so that a model's own defaults do not count.
  sampling.set_temperature(1);
  sampling.set_top_k(0);
  sampling.set_top_p(1);
  sampling.set_min_p(0);
  sampling.set_presence_penalty(0);
  sampling.set_frequency_penalty(0);
  sampling.set_repetition_penalty(1);
  sampling.set_max_tokens(static_cast<int32_t>(ask.max_tokens));
  sampling.set_seed(kAskSeed);
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

void Report(const Side& model, const Side& engine, const Side& grpc, Json& report) {
  PrintSidesHead();
  report["model_alone"] = ReportSide("model alone", model);
  report["engine"] = ReportSide("engine", engine);
  report["grpc"] = ReportSide("through gRPC", grpc);
  const std::vector<double> percent = PercentOf(engine, grpc);
  std::vector<double> added, first;
  for (size_t i = 0; i < engine.first.size(); ++i) {
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
  const Ask ask{.prompt = PromptTokens(options.prompt_tokens, subject.config.common.vocab_size),
                .max_tokens = options.max_tokens,
                .together = options.batches[0]};
  report["batch"] = ask.together;
  report["prompt_tokens"] = options.prompt_tokens;
  report["max_tokens"] = options.max_tokens;
  Model& model = *subject.model;
  EngineOptions engine_options;
  engine_options.max_num_seqs = std::max(engine_options.max_num_seqs, ask.together);
  // From here on the model is the engine's, and ours only while the engine has nothing to do.
  absl::StatusOr<std::unique_ptr<Engine>> engine = Engine::Create(
      {{kAskedModel, std::shared_ptr<Model>(std::move(subject.model))}}, engine_options);
  if (!engine.ok()) return engine.status();
  ServerOptions server_options;
  server_options.port = 0;
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(engine->get(), nullptr, ServerDescription(), server_options);
  if (!server.ok()) return server.status();
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", (*server)->port()),
                                           grpc::InsecureChannelCredentials());
  const auto stub = v1::GenerationService::NewStub(channel);

  const auto ask_server = [&] { return AskAtOnce(ask, [&] { return AskOnce(*stub, ask); }); };

  Side alone, bare, remote, warm_up;
  absl::Status s = warm_up.Add(AskEngine(**engine, ask));
  s.Update(warm_up.Add(ask_server()));
  for (int64_t round = 0; s.ok() && round < options.rounds; ++round) {
    s.Update(alone.Add(AskModel(model, *subject.device, ask)));
    s.Update(bare.Add(AskEngine(**engine, ask)));
    s.Update(remote.Add(ask_server()));
  }
  if (!s.ok()) return s;
  if (bare.tokens != remote.tokens) {
    return absl::AbortedError("gRPC delivered other tokens than the engine made");
  }
  Report(alone, bare, remote, report);
  return absl::OkStatus();
}

}  // namespace tvq::bench
