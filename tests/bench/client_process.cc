#include "tests/bench/client_process.h"

#include <grpcpp/grpcpp.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/report.h"
#include "tvq/v1/generation.grpc.pb.h"

namespace tvq::bench {
namespace {

using Stub = v1::GenerationService::Stub;

v1::GenerateRequest ToMessage(const Ask& ask) {
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
  return request;
}

void Add(const v1::GenerateResponse& response, Arrivals* arrivals) {
  for (const v1::SampleDelta& delta : response.deltas()) {
    if (!delta.token_ids().empty()) {
      arrivals->Add({delta.token_ids().data(), static_cast<size_t>(delta.token_ids_size())});
    }
  }
}

absl::Status ToAbsl(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("Generate: ", status.error_message()));
}

absl::StatusOr<Arrivals> AskOnce(Stub& stub, const Ask& ask) {
  Arrivals arrivals;
  grpc::ClientContext context;
  const auto reader = stub.Generate(&context, ToMessage(ask));
  for (v1::GenerateResponse response; reader->Read(&response);) Add(response, &arrivals);
  if (auto status = ToAbsl(reader->Finish()); !status.ok()) return status;
  return arrivals;
}

// One operation at a time is under way.
class QueuedReader {
 public:
  QueuedReader(Stub& stub, const v1::GenerateRequest& request, grpc::CompletionQueue* queue)
      : reader_(stub.AsyncGenerate(&context_, request, queue, this)) {}

  // It is done. False: it was the last.
  bool Proceed(bool ok) {
    if (finishing_) return false;
    if (reading_ && ok) Add(response_, &arrivals_);
    reading_ = ok;
    finishing_ = !ok;
    if (ok) {
      reader_->Read(&response_, this);
    } else {
      reader_->Finish(&status_, this);
    }
    return true;
  }
  // After the last.
  absl::StatusOr<Arrivals> Result() && {
    if (auto status = ToAbsl(status_); !status.ok()) return status;
    return std::move(arrivals_);
  }

 private:
  Arrivals arrivals_;
  grpc::ClientContext context_;
  v1::GenerateResponse response_;
  grpc::Status status_;
  bool reading_ = false;
  bool finishing_ = false;
  const std::unique_ptr<grpc::ClientAsyncReader<v1::GenerateResponse>> reader_;
};

absl::StatusOr<Together> AskByQueue(Stub& stub, const Ask& ask) {
  const v1::GenerateRequest request = ToMessage(ask);
  grpc::CompletionQueue queue;
  std::deque<QueuedReader> readers;
  for (int64_t i = 0; i < ask.together; ++i) readers.emplace_back(stub, request, &queue);
  void* tag = nullptr;
  bool ok = false;
  for (int64_t open = ask.together; open > 0 && queue.Next(&tag, &ok);) {
    if (!static_cast<QueuedReader*>(tag)->Proceed(ok)) --open;
  }
  Together requests;
  for (QueuedReader& reader : readers) {
    absl::StatusOr<Arrivals> arrivals = std::move(reader).Result();
    if (!arrivals.ok()) return arrivals.status();
    requests.push_back(*std::move(arrivals));
  }
  return requests;
}

absl::StatusOr<Together> Answer(Stub& stub, ClientKind kind, const Ask& ask) {
  if (kind == ClientKind::kQueue) return AskByQueue(stub, ask);
  return AskAtOnce(ask, [&] { return AskOnce(stub, ask); });
}

double ProcessorMs() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

// Clock ticks; all processes of a machine have the same clock.
int64_t Ticks(Arrivals::Clock::time_point time) { return time.time_since_epoch().count(); }
Arrivals::Clock::time_point FromTicks(int64_t ticks) {
  return Arrivals::Clock::time_point(Arrivals::Clock::duration(ticks));
}

Json ToJson(const Arrivals& arrivals) {
  Json times = Json::array();
  for (const auto& time : arrivals.times()) times.push_back(Ticks(time));
  return {{"sent", Ticks(arrivals.sent())}, {"tokens", arrivals.tokens()}, {"times", times}};
}

Arrivals FromJson(const Json& json) {
  std::vector<Arrivals::Clock::time_point> times;
  for (const Json& ticks : json["times"]) times.push_back(FromTicks(ticks.get<int64_t>()));
  return Arrivals(FromTicks(json["sent"].get<int64_t>()),
                  json["tokens"].get<std::vector<int32_t>>(), std::move(times));
}

// A message is a line.
void Send(const Json& message, FILE* out) {
  const std::string line = absl::StrCat(message.dump(), "\n");
  std::fwrite(line.data(), 1, line.size(), out);
  std::fflush(out);
}

std::optional<Json> Receive(FILE* in) {
  char* line = nullptr;
  size_t capacity = 0;
  const ssize_t bytes = getline(&line, &capacity, in);
  std::optional<Json> message;
  if (bytes > 0) message = Json::parse(line, line + bytes);
  std::free(line);
  return message;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ClientProcess>> ClientProcess::Start(const std::string& address) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return absl::InternalError(absl::StrCat("socketpair: ", strerror(errno)));
  }
  constexpr int kSocket = 3;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, sockets[1], kSocket);
  std::vector<std::string> words = {"tvq-bench", kClientWord, address, absl::StrCat(kSocket)};
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t process = 0;
  const int error =
      posix_spawn(&process, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(sockets[1]);
  if (error != 0) {
    close(sockets[0]);
    return absl::InternalError(absl::StrCat("the client's process: ", strerror(error)));
  }
  return std::unique_ptr<ClientProcess>(
      new ClientProcess(process, fdopen(dup(sockets[0]), "r"), fdopen(sockets[0], "w")));
}

ClientProcess::~ClientProcess() {
  std::fclose(out_);
  std::fclose(in_);
  waitpid(process_, nullptr, 0);
}

absl::StatusOr<Together> ClientProcess::Do(ClientKind kind, const Ask& ask) {
  Send({{"threads", kind == ClientKind::kThreads},
        {"prompt", ask.prompt},
        {"max_tokens", ask.max_tokens},
        {"together", ask.together}},
       out_);
  const std::optional<Json> answer = Receive(in_);
  if (!answer) return absl::InternalError("the client's process has ended");
  if (answer->contains("error")) return absl::InternalError((*answer)["error"].get<std::string>());
  processor_ms_ = (*answer)["processor_ms"].get<double>();
  Together requests;
  for (const Json& arrivals : (*answer)["requests"]) requests.push_back(FromJson(arrivals));
  return requests;
}

void RunClient(const std::string& address, int socket) {
  FILE* const in = fdopen(dup(socket), "r");
  FILE* const out = fdopen(socket, "w");
  const auto stub = v1::GenerationService::NewStub(
      grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  while (const std::optional<Json> asked = Receive(in)) {
    const Ask ask{.prompt = (*asked)["prompt"].get<std::vector<int32_t>>(),
                  .max_tokens = (*asked)["max_tokens"].get<int64_t>(),
                  .together = (*asked)["together"].get<int64_t>()};
    const auto kind = (*asked)["threads"].get<bool>() ? ClientKind::kThreads : ClientKind::kQueue;
    const double before = ProcessorMs();
    const absl::StatusOr<Together> requests = Answer(*stub, kind, ask);
    Json answer = {{"processor_ms", ProcessorMs() - before}, {"requests", Json::array()}};
    if (!requests.ok()) {
      answer["error"] = std::string(requests.status().message());
    } else {
      for (const Arrivals& arrivals : *requests) answer["requests"].push_back(ToJson(arrivals));
    }
    Send(answer, out);
  }
  std::fclose(out);
  std::fclose(in);
}

}  // namespace tvq::bench
