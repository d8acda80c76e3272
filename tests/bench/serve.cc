// tvq-bench serve: the same requests in turns to the model, to the engine and through gRPC, over a
// socket of this machine, to a server in this process that runs the same engine, by two kinds of
// clients in another process. Client, server and model share the machine's cores.

#include <algorithm>
#include <cstdio>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/engine/engine.h"
#include "server/rpc/services/server.h"
#include "tests/bench/asks.h"
#include "tests/bench/benches.h"
#include "tests/bench/client_process.h"
#include "tests/bench/sessions.h"
#include "tests/bench/statistics.h"
#include "tests/bench/thread_times.h"

namespace tvq::bench {
namespace {

// The requests through gRPC, by one kind of client.
struct Remote {
  ClientKind kind;
  const char* name;  // of the client
  Side side;
  std::vector<double> server_us, client_us;  // processor time a token, by round

  absl::Status Ask(const bench::Ask& ask, const ThreadTimes& server, ClientProcess& client) {
    const double before = server.ProcessorMs();
    if (auto status = side.Add(client.Do(kind, ask)); !status.ok()) return status;
    const auto tokens = static_cast<double>(ask.together * ask.max_tokens);
    server_us.push_back((server.ProcessorMs() - before) / tokens * 1e3);
    client_us.push_back(client.processor_ms() / tokens * 1e3);
    return absl::OkStatus();
  }
};

Json ReportAdded(const Side& engine, const Remote& remote) {
  const std::vector<double> percent = PercentOf(engine, remote.side);
  std::vector<double> added, first;
  for (size_t i = 0; i < engine.first.size(); ++i) {
    added.push_back((remote.side.per_token[i] - engine.per_token[i]) * 1e3);
    first.push_back(remote.side.first[i] - engine.first[i]);
  }
  const double server = Median(remote.server_us), client = Median(remote.client_us);
  std::printf(
      "gRPC, read by %s, keeps %.1f%% of the engine's tokens/s, adds %.0f us a token (quartiles "
      "%.0f to %.0f) and %.2f ms to the first; of processor time, the server's threads beside the "
      "engine's take %.1f us a token, the client %.1f\n",
      remote.name, Median(percent), Median(added), Quantile(added, 0.25), Quantile(added, 0.75),
      Median(first), server, client);
  return {{"percent_of_engine", Median(percent)},
          {"us_added_per_token", Median(added)},
          {"us_added_per_token_quartiles", {Quantile(added, 0.25), Quantile(added, 0.75)}},
          {"ms_added_to_first_token", Median(first)},
          {"server_processor_us_per_token", server},
          {"client_processor_us_per_token", client}};
}

void Report(const Side& model, const Side& engine, const Remote& queue, const Remote& threads,
            Json& report) {
  PrintSidesHead();
  report["model_alone"] = ReportSide("model alone", model);
  report["engine"] = ReportSide("engine", engine);
  report["grpc"] = ReportSide("gRPC, queue", queue.side);
  report["grpc_threads"] = ReportSide("gRPC, threads", threads.side);
  report.update(ReportAdded(engine, queue));
  report["grpc_threads"].update(ReportAdded(engine, threads));
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
  const ThreadTimes rpc_threads;  // begins before the server's
  ServerOptions server_options;
  server_options.port = 0;
  absl::StatusOr<std::unique_ptr<Server>> server =
      Server::Start(engine->get(), nullptr, ServerDescription(), server_options);
  if (!server.ok()) return server.status();
  auto client = ClientProcess::Start(absl::StrCat("127.0.0.1:", (*server)->port()));
  if (!client.ok()) return client.status();

  Side alone, bare, warm_up;
  Remote queue{.kind = ClientKind::kQueue, .name = "a queue"};
  Remote threads{.kind = ClientKind::kThreads, .name = "a thread a stream"};
  absl::Status s = warm_up.Add(AskEngine(**engine, ask));
  s.Update(warm_up.Add((*client)->Do(ClientKind::kQueue, ask)));
  for (int64_t round = 0; s.ok() && round < options.rounds; ++round) {
    s.Update(alone.Add(AskModel(model, *subject.device, ask)));
    s.Update(bare.Add(AskEngine(**engine, ask)));
    if (s.ok()) s.Update(queue.Ask(ask, rpc_threads, **client));
    if (s.ok()) s.Update(threads.Ask(ask, rpc_threads, **client));
  }
  if (!s.ok()) return s;
  if (bare.tokens != queue.side.tokens || bare.tokens != threads.side.tokens) {
    return absl::AbortedError("gRPC delivered other tokens than the engine made");
  }
  Report(alone, bare, queue, threads, report);
  return absl::OkStatus();
}

bool RanAsClient(std::span<char* const> words) {
  int socket = -1;
  const bool is_client = words.size() == 3 && words[0] == std::string_view(kClientWord) &&
                         absl::SimpleAtoi(words[2], &socket);
  if (is_client) RunClient(words[1], socket);
  return is_client;
}

}  // namespace tvq::bench
