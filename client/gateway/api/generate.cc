#include "client/gateway/api/generate.h"

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <ctime>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/aside.h"
#include "client/gateway/api/whole_reply.h"
#include "client/gateway/upstream/read_call.h"
#include "client/gateway/upstream/unary_call.h"

namespace tvq::gateway {
namespace {

// Messages of one call that wait for a slow reader; the server joins tokens into fewer when flow
// control stops it.
constexpr size_t kMessagesAhead = 32;
// After so much silence a comment is sent, so that proxies and clients know that all is well.
constexpr std::chrono::seconds kSilence{15};

using Sessions = v1::SessionService::Stub;
using Models = v1::ModelService::Stub;
using GenerateCall = ReadCall<v1::GenerateResponse>;

// The calls of one request.
class GenerateCalls {
 public:
  explicit GenerateCalls(const Exchange& exchange)
      : changed_(std::make_shared<Signal>(exchange.executor())) {}
  ~GenerateCalls() { Cancel(calls_); }
  GenerateCalls(const GenerateCalls&) = delete;

  // Takes the prompts from the requests. If it throws, the destructor ends those that have begun.
  void Start(Services& services, Exchange& exchange, std::vector<v1::GenerateRequest>& requests) {
    for (v1::GenerateRequest& request : requests) {
      const CallHeaders headers = HeadersOf(exchange, request.session().session_id());
      const auto prepare = [&](grpc::ClientContext* context) {
        const Stubs& stubs = services.upstream.Next();
        return stubs.generation->PrepareAsyncGenerate(context, request, stubs.queue);
      };
      calls_.push_back(GenerateCall::Start(headers, changed_, kMessagesAhead, prepare));
      request.clear_prompt();
    }
    closed_.resize(calls_.size());
    exchange.OnHangUp([calls = calls_] { Cancel(calls); });
  }

  const std::shared_ptr<Signal>& changed() const { return changed_; }

  // Hands what has come to `take`: (number of the call, message).
  template <typename Take>
  void Poll(const Take& take) {
    for (size_t i = 0; i < calls_.size(); ++i) {
      if (closed_[i]) continue;
      messages_.clear();
      const GenerateCall::State state = calls_[i]->Take(&messages_);
      for (const v1::GenerateResponse& message : messages_) take(i, message);
      if (!state.done) continue;
      closed_[i] = true;
      ++closed_count_;
      if (status_.ok()) failed_ = i;
      status_.Update(calls_[i]->status());
    }
  }

  // Whether all of them compute or have ended, or one has failed; before the first Poll. What has
  // come of them stays with them, and flow control reaches the server.
  bool Decided() {
    size_t decided = 0;
    for (const auto& call : calls_) {
      const GenerateCall::State state = call->Look();
      if (state.done && !call->status().ok()) return true;
      began_ = began_ || state.head || state.done;
      if (state.head || state.done) ++decided;
    }
    return decided == calls_.size();
  }
  // Whether Decided saw one that computes, or has.
  bool began() const { return began_; }
  bool ended() const { return closed_count_ == calls_.size(); }
  // Nothing more of them is wanted.
  void Cancel() { Cancel(calls_); }

  // The first error; the others' answers are of no use then.
  const absl::Status& status() const { return status_; }
  // The call that it is of.
  size_t failed() const { return failed_; }

 private:
  static void Cancel(const std::vector<std::shared_ptr<GenerateCall>>& calls) {
    for (const auto& call : calls) {
      if (!call->done()) call->Cancel();
    }
  }

  const std::shared_ptr<Signal> changed_;
  std::vector<std::shared_ptr<GenerateCall>> calls_;
  std::vector<bool> closed_;
  std::vector<v1::GenerateResponse> messages_;  // keeps its memory, and so do the calls' own
  size_t closed_count_ = 0;
  bool began_ = false;
  absl::Status status_;
  size_t failed_ = 0;
};

constexpr char kOrStream[] = ", or stream";

Response EventStream() {
  return {.content_type = "text/event-stream; charset=utf-8",
          .headers = {{"Cache-Control", "no-cache"}, {"X-Accel-Buffering", "no"}}};
}

class CountedStream {
 public:
  explicit CountedStream(Metrics& metrics) : metrics_(metrics) { metrics_.StreamBegan(); }
  ~CountedStream() { metrics_.StreamEnded(); }
  CountedStream(const CountedStream&) = delete;

 private:
  Metrics& metrics_;
};

// Wakes a signal so long after each start.
class Alarm {
 public:
  Alarm(std::shared_ptr<Signal> signal, std::chrono::milliseconds after)
      : signal_(std::move(signal)), after_(after), timer_(signal_->executor()) {}

  void Start() {
    started_ = true;
    *due_ = false;
    timer_.expires_after(after_);
    timer_.async_wait([due = due_, signal = signal_](const boost::system::error_code& error) {
      if (error) return;
      *due = true;
      signal->Notify();
    });
  }
  bool started() const { return started_; }
  bool due() const { return *due_; }

 private:
  const std::shared_ptr<Signal> signal_;
  const std::chrono::milliseconds after_;
  asio::steady_timer timer_;
  bool started_ = false;
  const std::shared_ptr<bool> due_ = std::make_shared<bool>(false);  // the timer may outlive this
};

}  // namespace

asio::awaitable<void> StreamAnswer(Services& services, Exchange& exchange,
                                   std::vector<v1::GenerateRequest>& requests,
                                   const CallError& to_error, Events& events) {
  if (exchange.gone()) co_return;
  GenerateCalls calls(exchange);
  calls.Start(services, exchange, requests);
  exchange.HoldInstead(0);  // the prompts are gone
  const CountedStream counted(services.metrics);
  Alarm silence(calls.changed(), kSilence), refusal(calls.changed(), services.refusal_timeout);
  bool first = true, held = true;
  std::string out;
  while (true) {
    co_await calls.changed()->Wait();
    if (exchange.gone()) co_return;
    if (!exchange.begun() && !refusal.due() && !calls.Decided()) {
      if (calls.began() && !refusal.started()) refusal.Start();
      continue;
    }
    calls.Poll([&](size_t call, const v1::GenerateResponse& message) {
      // A prompt's probabilities are kept until the end.
      held = held && (message.prompt_logprobs().empty() || exchange.Hold(MemoryOf(message)));
      if (held) events.Append(call, message, &out);
    });
    const bool failed = !held || !calls.status().ok();
    ApiError error;
    if (failed) {
      error = held ? to_error(calls.status(), calls.failed()) : NoMemory(exchange, kOrStream);
      calls.Cancel();
    }
    if (failed && !exchange.begun()) {
      co_await exchange.Respond(ErrorResponse(error));
      co_return;
    }
    if (!exchange.begun()) {
      const bool sent = co_await exchange.Begin(EventStream(), std::nullopt);
      if (!sent) co_return;
      silence.Start();
    }
    if (failed) {
      absl::StrAppend(&out, "data: ", ToJson(error), "\n\n");
    } else if (calls.ended()) {
      events.AppendEnd(&out);
    }
    if (failed || calls.ended()) {
      out += kDone;
      const bool sent = co_await exchange.Write(out);
      if (sent) co_await exchange.End();
      co_return;
    }
    if (silence.due()) {
      if (out.empty()) out = ": waiting\n\n";
      silence.Start();
    }
    if (out.empty()) continue;
    const bool sent = co_await exchange.Write(out);
    if (!sent) co_return;
    if (std::exchange(first, false)) {
      services.metrics.FirstEvent(std::chrono::steady_clock::now() - exchange.started());
    }
    out.clear();
  }
}

asio::awaitable<void> WholeAnswer(Services& services, Exchange& exchange,
                                  std::vector<v1::GenerateRequest>& requests,
                                  const CallError& to_error, std::unique_ptr<Whole> whole) {
  if (exchange.gone()) co_return;
  GenerateCalls calls(exchange);
  calls.Start(services, exchange, requests);
  exchange.HoldInstead(0);  // the prompts are gone
  size_t bytes = 0;
  bool held = true;
  while (!calls.ended() && calls.status().ok() && held && bytes <= kMaxAnswerBytes) {
    co_await calls.changed()->Wait();
    if (exchange.gone()) co_return;
    calls.Poll([&](size_t call, const v1::GenerateResponse& message) {
      bytes += message.ByteSizeLong();
      held = held && exchange.Hold(MemoryOf(message));
      if (held && bytes <= kMaxAnswerBytes) whole->Add(call, message);
    });
  }
  // Where they have not all ended well, for a client may take long to read why.
  calls.Cancel();
  if (!calls.status().ok()) {
    co_await exchange.Respond(ErrorResponse(to_error(calls.status(), calls.failed())));
  } else if (bytes > kMaxAnswerBytes) {
    co_await exchange.Respond(ErrorResponse(
        HttpError(413, absl::StrCat("stream: must be true for an answer of more than ",
                                    kMaxAnswerBytes, " bytes"))));
  } else if (!held) {
    co_await exchange.Respond(ErrorResponse(NoMemory(exchange, kOrStream)));
  } else {
    const auto write = [&] { return Fitted(whole->ToJson()); };
    std::string json = co_await Aside(services.beside, exchange, bytes, write);
    whole.reset();
    co_await RespondJson(exchange, std::move(json));
  }
}

asio::awaitable<absl::StatusOr<std::string>> ModelNamed(Services& services, Exchange& exchange,
                                                        std::string name) {
  if (!name.empty()) co_return name;
  auto found = co_await Unary<v1::GetModelRequest, v1::GetModelResponse>(
      exchange, HeadersOf(exchange), services.upstream.Next(), &Models::PrepareAsyncGetModel,
      v1::GetModelRequest());
  if (!found.ok()) co_return found.status();
  co_return found->model().name();
}

asio::awaitable<absl::StatusOr<std::string>> ModelOf(Services& services, Exchange& exchange,
                                                     const v1::GenerateRequest& call) {
  if (call.model().empty() && call.has_session()) {
    v1::GetSessionRequest request;
    request.set_session_id(call.session().session_id());
    auto found = co_await Unary<v1::GetSessionRequest, v1::GetSessionResponse>(
        exchange, HeadersOf(exchange, call.session().session_id()), services.upstream.Next(),
        &Sessions::PrepareAsyncGetSession, std::move(request));
    if (!found.ok()) co_return found.status();
    co_return found->session().model();
  }
  absl::StatusOr<std::string> name = co_await ModelNamed(services, exchange, call.model());
  co_return name;
}

AnswerHead MakeHead(const Exchange& exchange, const char* kind, std::string model) {
  return {.id = absl::StrCat(kind, "-", exchange.request_id()),
          .model = std::move(model),
          .created = static_cast<int64_t>(std::time(nullptr))};
}

}  // namespace tvq::gateway
