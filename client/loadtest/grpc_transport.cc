#include "client/loadtest/grpc_transport.h"

#include <grpcpp/alarm.h>
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <unordered_set>
#include <utility>

#include "client/cpp/grpc_call.h"
#include "client/loadtest/driver/timer_queue.h"
#include "client/loadtest/waker.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq::loadtest {
namespace {

using Clock = std::chrono::steady_clock;

Reply ToReply(const grpc::Status& status, const grpc::ClientContext& context,
              const client::CallEnd& end) {
  if (status.ok()) return {};
  const absl::Status converted = client::FromGrpc(status, context, end);
  Reply reply{.ok = false,
              .status = absl::StatusCodeToString(converted.code()),
              .message = std::string(converted.message())};
  if (const auto wait = client::RetryAfter(converted)) {
    reply.retry_after = absl::ToInt64Nanoseconds(*wait);
  }
  return reply;
}

class GrpcTransport;

// What the completion queue brings back. One operation at a time is under way.
class QueuedCall : public Call {
 public:
  QueuedCall(GrpcTransport* transport, CallListener* listener)
      : transport_(*transport), listener_(listener) {}
  // `ok` as the queue gave it. False: the call has ended, and is to be destroyed.
  virtual bool Proceed(bool ok) = 0;
  void Cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }
  void Forget() { listener_ = nullptr; }
  grpc::ClientContext* context() { return &context_; }

 protected:
  void End(const Reply& reply) {
    if (listener_ != nullptr) listener_->OnReply(reply);
  }
  // `answered`: a message of the response came.
  Reply EndOf(bool answered) const {
    return ToReply(status_, context_, {.cancelled = cancelled_, .answered = answered});
  }
  void* tag() { return this; }

  GrpcTransport& transport_;
  CallListener* listener_;
  grpc::ClientContext context_;
  grpc::Status status_;

 private:
  bool cancelled_ = false;
};

struct Connection {
  std::unique_ptr<v1::GenerationService::Stub> generation;
  std::unique_ptr<v1::SessionService::Stub> sessions;
};

class GrpcTransport final : public Transport {
 public:
  GrpcTransport(const std::vector<client::Transport>& connections, RequestSettings settings)
      : settings_(std::move(settings)),
        credentials_(connections.front()),
        waker_(std::make_unique<Waker>([this] { Wake(); })) {
    for (const client::Transport& connection : connections) {
      connections_.push_back({v1::GenerationService::NewStub(connection.channel),
                              v1::SessionService::NewStub(connection.channel)});
    }
  }
  ~GrpcTransport() override;

  Nanos Now() const override {
    return std::chrono::nanoseconds(Clock::now().time_since_epoch()).count();
  }
  void At(Nanos time, std::function<void()> callback) override {
    timers_.Add(time, std::move(callback));
  }
  Call* Generate(const GenerateSpec& spec, CallListener* listener) override;
  Call* CreateSession(CallListener* listener) override;
  Call* DeleteSession(const std::string& session_id, CallListener* listener) override;
  void Run() override;
  void Stop() override;

  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  // The waker's thread. An alarm must not be set again before the queue has brought it back.
  void Wake() {
    if (!wake_queued_.exchange(true)) alarm_.Set(&queue_, gpr_time_0(GPR_CLOCK_REALTIME), nullptr);
  }
  Connection& NextConnection() { return connections_[next_connection_++ % connections_.size()]; }
  void Prepare(grpc::ClientContext* context, const std::string& session_id = "") {
    client::Apply({}, credentials_, context, session_id);
  }
  void RunDueTimers();
  void SetWaker();
  void Handle(void* tag, bool ok);
  template <typename CallType>
  Call* Keep(CallType* call) {
    calls_.insert(call);
    return call;
  }

  const RequestSettings settings_;
  const client::Transport credentials_;
  std::vector<Connection> connections_;
  size_t next_connection_ = 0;

  grpc::CompletionQueue queue_;
  grpc::Alarm alarm_;  // the waker's
  std::atomic<bool> wake_queued_ = false;
  TimerQueue timers_;
  Nanos waker_set_ = -1;  // to this time; -1: it is not
  std::unordered_set<QueuedCall*> calls_;
  bool stopped_ = false;
  std::unique_ptr<Waker> waker_;
};

class GenerateCall final : public QueuedCall {
 public:
  using QueuedCall::QueuedCall;

  void Start(Connection& connection, const v1::GenerateRequest& request, Nanos read_pause) {
    read_pause_ = read_pause;
    reader_ = connection.generation->PrepareAsyncGenerate(&context_, request, transport_.queue());
    reader_->StartCall(tag());
  }

  void Cancel() override {
    QueuedCall::Cancel();
    pause_.Cancel();
  }

  bool Proceed(bool ok) override {
    switch (stage_) {
      case Stage::kStart:
        if (!ok) return Finish();
        stage_ = Stage::kRead;
        break;
      case Stage::kRead:
        if (!ok) return Finish();
        Take();
        if (read_pause_ > 0 && listener_ != nullptr) {
          stage_ = Stage::kPause;
          pause_.Set(transport_.queue(),
                     std::chrono::system_clock::now() + std::chrono::nanoseconds(read_pause_),
                     tag());
          return true;
        }
        break;
      case Stage::kPause:
        stage_ = Stage::kRead;
        break;
      case Stage::kFinish: {
        Reply reply = EndOf(answered_);
        reply.prompt_tokens = usage_.prompt_tokens();
        reply.cached_tokens = usage_.cached_tokens();
        End(reply);
        return false;
      }
    }
    reader_->Read(&response_, tag());
    return true;
  }

 private:
  enum class Stage { kStart, kRead, kPause, kFinish };

  bool Finish() {
    stage_ = Stage::kFinish;
    reader_->Finish(&status_, tag());
    return true;
  }
  void Take() {
    answered_ = true;
    int64_t tokens = 0;
    for (const v1::SampleDelta& delta : response_.deltas()) tokens += delta.token_ids_size();
    if (response_.has_usage()) usage_ = response_.usage();
    if (tokens > 0 && listener_ != nullptr) listener_->OnTokens(tokens);
  }

  std::unique_ptr<grpc::ClientAsyncReader<v1::GenerateResponse>> reader_;
  v1::GenerateResponse response_;  // one for all reads: its memory is used again
  v1::Usage usage_;
  Nanos read_pause_ = 0;
  grpc::Alarm pause_;
  bool answered_ = false;
  Stage stage_ = Stage::kStart;
};

template <typename Response>
class UnaryCall final : public QueuedCall {
 public:
  using QueuedCall::QueuedCall;

  // `prepare` makes the reader of the call.
  template <typename Prepare>
  void Start(const Prepare& prepare) {
    reader_ = prepare(&context_, transport_.queue());
    reader_->StartCall();
    reader_->Finish(&response_, &status_, tag());
  }

  bool Proceed(bool /*ok*/) override {
    Reply reply = EndOf(/*answered=*/false);
    if constexpr (requires { response_.session().id(); })
      reply.session_id = response_.session().id();
    End(reply);
    return false;
  }

 private:
  std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> reader_;
  Response response_;
};

GrpcTransport::~GrpcTransport() {
  waker_.reset();
  Stop();
  void* tag = nullptr;
  bool ok = false;
  // Calls go on until they are told of their end, which a queue that is shut down would not take.
  while (!calls_.empty() && queue_.Next(&tag, &ok)) Handle(tag, ok);
  queue_.Shutdown();
  while (queue_.Next(&tag, &ok)) {
  }
}

Call* GrpcTransport::Generate(const GenerateSpec& spec, CallListener* listener) {
  v1::GenerateRequest request;
  request.set_model(settings_.model);
  if (spec.prompt.ids.empty()) {
    request.set_text(spec.prompt.text);
  } else {
    request.mutable_token_ids()->mutable_ids()->Add(spec.prompt.ids.begin(), spec.prompt.ids.end());
  }
  v1::SamplingParams& sampling = *request.mutable_sampling();
  sampling.set_max_tokens(static_cast<int32_t>(spec.max_tokens));
  sampling.set_seed(spec.seed);
  sampling.set_ignore_eos(settings_.ignore_eos);
  if (settings_.temperature) sampling.set_temperature(*settings_.temperature);
  if (!spec.session_id.empty()) request.mutable_session()->set_session_id(spec.session_id);
  auto* call = new GenerateCall(this, listener);  // owned by calls_
  Prepare(call->context(), spec.session_id);
  call->Start(NextConnection(), request, spec.read_pause);
  return Keep(call);
}

Call* GrpcTransport::CreateSession(CallListener* listener) {
  v1::CreateSessionRequest request;
  request.set_model(settings_.model);
  request.mutable_ttl()->set_seconds(static_cast<int64_t>(settings_.session_ttl));
  request.set_label("tvq-loadtest");
  auto* call = new UnaryCall<v1::CreateSessionResponse>(this, listener);
  Prepare(call->context());
  call->Start([&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
    return NextConnection().sessions->PrepareAsyncCreateSession(context, request, queue);
  });
  return Keep(call);
}

Call* GrpcTransport::DeleteSession(const std::string& session_id, CallListener* listener) {
  v1::DeleteSessionRequest request;
  request.mutable_session()->set_session_id(session_id);
  auto* call = new UnaryCall<v1::DeleteSessionResponse>(this, listener);
  Prepare(call->context(), session_id);
  call->Start([&](grpc::ClientContext* context, grpc::CompletionQueue* queue) {
    return NextConnection().sessions->PrepareAsyncDeleteSession(context, request, queue);
  });
  return Keep(call);
}

void GrpcTransport::Handle(void* tag, bool ok) {
  if (tag == nullptr) {  // the waker's
    wake_queued_ = false;
    waker_set_ = -1;
    return;
  }
  auto* call = static_cast<QueuedCall*>(tag);
  if (call->Proceed(ok)) return;
  calls_.erase(call);
  delete call;
}

void GrpcTransport::RunDueTimers() {
  while (!stopped_) {
    const std::function<void()> callback = timers_.PopDue(Now());
    if (!callback) return;
    callback();
  }
}

void GrpcTransport::SetWaker() {
  const std::optional<Nanos> next = timers_.next();
  if (!next || (waker_set_ >= 0 && waker_set_ <= *next)) return;
  waker_set_ = *next;
  waker_->Set(Clock::time_point(std::chrono::nanoseconds(*next)));
}

void GrpcTransport::Run() {
  stopped_ = false;
  void* tag = nullptr;
  bool ok = false;
  while (true) {
    RunDueTimers();
    if (stopped_) return;
    SetWaker();
    if (!queue_.Next(&tag, &ok)) return;
    Handle(tag, ok);
    if (stopped_) return;
  }
}

void GrpcTransport::Stop() {
  stopped_ = true;
  timers_.Clear();
  for (QueuedCall* call : calls_) {
    call->Forget();
    call->Cancel();
  }
}

}  // namespace

std::unique_ptr<Transport> MakeGrpcTransport(const std::vector<client::Transport>& connections,
                                             const RequestSettings& settings) {
  return std::make_unique<GrpcTransport>(connections, settings);
}

}  // namespace tvq::loadtest
