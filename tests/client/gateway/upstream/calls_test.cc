// The calls of a gateway on a server that does what it wants.
#include <grpcpp/alarm.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "client/gateway/upstream/channel.h"
#include "client/gateway/upstream/read_call.h"
#include "client/gateway/upstream/unary_call.h"
#include "client/gateway/upstream/upload_call.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/client/gateway/http/loopback.h"

namespace tvq::gateway {
namespace {

using GenerateCall = ReadCall<v1::GenerateResponse>;
using GetQuestion = Question<v1::GetSessionResponse>;
using ImportCall = UploadCall<v1::ImportSessionRequest, v1::ImportSessionResponse>;
using Sessions = v1::SessionService::Stub;
using Writer = grpc::ServerWriter<v1::GenerateResponse>;
using Reader = grpc::ServerReader<v1::ImportSessionRequest>;

constexpr size_t kLimit = 4;
const grpc::Status kCancelled(grpc::StatusCode::CANCELLED, "Cancelled");

// Keeps a handler until its call is cancelled.
void AwaitCancel(const grpc::ServerContext& context) {
  while (!context.IsCancelled()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

v1::GenerateResponse Text(const std::string& text) {
  v1::GenerateResponse response;
  response.add_deltas()->set_text(text);
  return response;
}

class CallsTest : public testing::Test {
 protected:
  CallsTest() { upstream_ = Open(loop_.get_executor()); }
  // Every call ends, and lets go of the loop.
  ~CallsTest() override {
    loop_.restart();
    const auto waiting = asio::make_work_guard(loop_);
    while (OpenCalls::count() > 0) loop_.run_for(std::chrono::milliseconds(1));
  }

  std::unique_ptr<Upstream> Open(asio::any_io_executor loop) {
    client::ConnectOptions options;
    options.address = fake_.address();
    auto upstream = Upstream::Open(options, 1, std::move(loop));
    EXPECT_TRUE(upstream.ok()) << upstream.status();
    return *std::move(upstream);
  }

  // Runs a test's coroutine to its end.
  void Run(asio::awaitable<void> coroutine) {
    auto done = asio::co_spawn(loop_, std::move(coroutine), asio::use_future);
    loop_.run();
    done.get();
  }

  std::shared_ptr<GenerateCall> StartGenerate() {
    const auto start = [&](grpc::ClientContext* context) {
      const Stubs& stubs = upstream_->Next();
      return stubs.generation->PrepareAsyncGenerate(context, request_, stubs.queue);
    };
    return GenerateCall::Start({.request_id = "r"}, changed_, kLimit, start);
  }
  std::shared_ptr<ImportCall> StartImport() {
    return ImportCall::Start(
        {.request_id = "r"}, loop_.get_executor(),
        [&](grpc::ClientContext* context, v1::ImportSessionResponse* response) {
          const Stubs& stubs = upstream_->Next();
          return stubs.sessions->PrepareAsyncImportSession(context, response, stubs.queue);
        });
  }
  std::shared_ptr<GetQuestion> StartGet() {
    const CallHeaders headers = {.request_id = "r"};
    const auto question = std::make_shared<GetQuestion>(headers, loop_.get_executor());
    question->Start([&](grpc::ClientContext* context) {
      const Stubs& stubs = upstream_->Next();
      return stubs.sessions->PrepareAsyncGetSession(context, v1::GetSessionRequest(), stubs.queue);
    });
    return question;
  }
  // What the call says until it ends.
  asio::awaitable<std::string> ReadAll(std::shared_ptr<GenerateCall> call) {
    std::string text;
    std::vector<v1::GenerateResponse> messages;
    bool done = false;
    while (!done) {
      co_await changed_->Wait();
      messages.clear();
      const GenerateCall::State state = call->Take(&messages);
      done = state.done;
      EXPECT_TRUE(state.head || messages.empty());
      EXPECT_LE(messages.size(), kLimit);
      for (const auto& message : messages) text += message.deltas(0).text();
    }
    co_return text;
  }

  client::FakeServer fake_;
  asio::io_context loop_{1};
  std::unique_ptr<Upstream> upstream_;
  const std::shared_ptr<Signal> changed_ = std::make_shared<Signal>(loop_.get_executor());
  const v1::GenerateRequest request_;
};

TEST_F(CallsTest, ReadsAllInOrder) {
  std::string want;
  for (int i = 0; i < 500; ++i) want += std::to_string(i) + ",";
  fake_.generation.generate = [](auto*, const auto&, Writer* writer) {
    for (int i = 0; i < 500; ++i) writer->Write(Text(std::to_string(i) + ","));
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartGenerate();
    const std::string text = co_await ReadAll(call);
    EXPECT_EQ(text, want);
    EXPECT_TRUE(call->status().ok());
  };
  Run(test());
}

TEST_F(CallsTest, ReadsWhatCameBeforeAnError) {
  fake_.generation.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Text("a"));
    return grpc::Status(grpc::StatusCode::DATA_LOSS, "damaged");
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartGenerate();
    const std::string text = co_await ReadAll(call);
    EXPECT_EQ(text, "a");
    EXPECT_EQ(call->status(), absl::DataLossError("damaged"));
  };
  Run(test());
}

TEST_F(CallsTest, LookLeavesWhatCame) {
  fake_.generation.generate = [](auto*, const auto&, Writer* writer) {
    writer->Write(Text("a"));
    writer->Write(Text("b"));
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartGenerate();
    GenerateCall::State state;
    while (!state.done) {
      co_await changed_->Wait();
      state = call->Look();
    }
    EXPECT_TRUE(state.head);
    std::vector<v1::GenerateResponse> messages;
    call->Take(&messages);
    EXPECT_EQ(messages.size(), 2);
  };
  Run(test());
}

// As calls do that reach a server while it closes.
TEST_F(CallsTest, WhatTheServerCancelsUnbegunIsToBeMadeAgain) {
  fake_.generation.generate = [](grpc::ServerContext*, const auto&, Writer*) { return kCancelled; };
  fake_.sessions.import_session = [](auto*, Reader* const&, auto*) { return kCancelled; };
  fake_.sessions.get = [](grpc::ServerContext*, const auto&, auto*) { return kCancelled; };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartGenerate();
    while (!call->done()) co_await changed_->Wait();
    EXPECT_TRUE(absl::IsUnavailable(call->status())) << call->status();
    const auto import = StartImport();
    const absl::StatusOr<v1::ImportSessionResponse> made = co_await import->Finish();
    EXPECT_TRUE(absl::IsUnavailable(made.status())) << made.status();
    const auto question = StartGet();
    const absl::StatusOr<v1::GetSessionResponse> got = co_await question->Answer();
    EXPECT_TRUE(absl::IsUnavailable(got.status())) << got.status();
  };
  Run(test());
}

// As a server does to a client that takes nothing.
TEST_F(CallsTest, WhatTheServerCancelsAmidItsAnswerWasReadTooSlowly) {
  fake_.generation.generate = [](grpc::ServerContext* context, const auto&, Writer* writer) {
    context->AddInitialMetadata("x-request-id", "r");
    writer->SendInitialMetadata();
    return kCancelled;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartGenerate();
    while (!call->done()) co_await changed_->Wait();
    EXPECT_TRUE(absl::IsDeadlineExceeded(call->status())) << call->status();
  };
  Run(test());
}

// Has news once there is memory for them.
class Forgetful final : public CallQueue::Operation {
 public:
  void Start(CallQueue& queue) {
    alarm_.Set(queue.grpc(), std::chrono::system_clock::now(), Tag());
  }

  std::promise<int> tries;

 private:
  bool Proceed(bool) override {
    if (++tries_ < 3) throw std::bad_alloc();
    return true;
  }
  void OnNews() override { tries.set_value(tries_); }

  grpc::Alarm alarm_;
  int tries_ = 0;
};

TEST(CallQueueTest, OutlivesAShortageOfMemory) {
  asio::io_context loop{1};
  const auto waiting = asio::make_work_guard(loop);
  CallQueue queue(loop.get_executor());
  const auto forgetful = std::make_shared<Forgetful>();
  auto tries = forgetful->tries.get_future();
  forgetful->Start(queue);
  while (tries.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    loop.run_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(tries.get(), 3);
}

// Also one that reads no further because nobody takes what it has read.
TEST_F(CallsTest, CancelEndsACallThatHasPaused) {
  std::promise<bool> ended;
  fake_.generation.generate = [&](grpc::ServerContext* context, const auto&, Writer* writer) {
    for (size_t i = 0; i < kLimit; ++i) writer->Write(Text("a"));
    AwaitCancel(*context);
    ended.set_value(true);
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartGenerate();
    std::vector<v1::GenerateResponse> messages;
    co_await changed_->Wait();  // something has come; the rest soon has, too
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    call->Cancel();
    while (!call->done()) co_await changed_->Wait();
    EXPECT_TRUE(absl::IsCancelled(call->status()));
  };
  Run(test());
  EXPECT_TRUE(ended.get_future().get());
}

TEST_F(CallsTest, LargeMessagesWaitWithTheServer) {
  constexpr int kMessages = 50;
  fake_.generation.generate = [](auto*, const auto&, Writer* writer) {
    const auto message = Text(std::string(40'000, 'x'));
    for (int i = 0; i < kMessages; ++i) writer->Write(message);
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartGenerate();
    std::vector<v1::GenerateResponse> messages;
    size_t taken = 0;
    bool done = false;
    while (!done) {
      co_await changed_->Wait();
      // Time in which it could read more.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      messages.clear();
      done = call->Take(&messages).done;
      EXPECT_LE(messages.size(), 2);
      taken += messages.size();
    }
    EXPECT_EQ(taken, kMessages);
  };
  Run(test());
}

// All share one connection, whose flow control those that nobody reads must not use up.
TEST_F(CallsTest, CallsThatNobodyReadsDoNotStopOthers) {
  constexpr int kUnread = 200;
  std::atomic<int> written = 0;
  std::atomic<bool> quick = false;
  fake_.generation.generate = [&](auto*, const auto&, Writer* writer) {
    if (quick) {
      writer->Write(Text("quick"));
      return grpc::Status::OK;
    }
    const auto message = Text(std::string(40'000, 'x'));
    while (writer->Write(message)) ++written;
    return grpc::Status::OK;
  };
  fake_.sessions.get = [](auto*, const auto&, auto* response) {
    response->mutable_session()->set_label("quick");
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    std::vector<std::shared_ptr<GenerateCall>> unread;
    unread.reserve(kUnread);
    for (int i = 0; i < kUnread; ++i) unread.push_back(StartGenerate());
    // Far more than a connection's window, by all of them together.
    while (written < 5 * kUnread) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    quick = true;
    const auto question = StartGet();
    const auto answer = co_await question->Answer();
    EXPECT_EQ(answer.ok() ? answer->session().label() : "", "quick");
    const auto changed = std::make_shared<Signal>(loop_.get_executor());
    const auto call = GenerateCall::Start(
        {.request_id = "r"}, changed, kLimit, [&](grpc::ClientContext* context) {
          const Stubs& stubs = upstream_->Next();
          return stubs.generation->PrepareAsyncGenerate(context, request_, stubs.queue);
        });
    while (!call->done()) co_await changed->Wait();
    EXPECT_TRUE(call->status().ok()) << call->status();
    for (const auto& other : unread) other->Cancel();
    for (const auto& other : unread) {
      while (!other->done()) co_await changed_->Wait();
    }
  };
  Run(test());
}

TEST_F(CallsTest, UploadsAll) {
  fake_.sessions.import_session = [](auto*, Reader* const& reader, auto* response) {
    v1::ImportSessionRequest message;
    std::string all;
    while (reader->Read(&message)) all += message.chunk();
    response->mutable_session()->set_label(all);
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartImport();
    for (const char* chunk : {"a", "bc", "d"}) {
      v1::ImportSessionRequest message;
      message.set_chunk(chunk);
      const bool open = co_await call->Write(std::move(message));
      EXPECT_TRUE(open);
    }
    const absl::StatusOr<v1::ImportSessionResponse> made = co_await call->Finish();
    EXPECT_EQ(made.ok() ? made->session().label() : made.status().ToString(), "abcd");
  };
  Run(test());
}

TEST_F(CallsTest, UploadThatTheServerRefuses) {
  fake_.sessions.import_session = [](auto*, Reader* const&, auto*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "too many uploads");
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartImport();
    bool open = true;
    while (open) {
      v1::ImportSessionRequest message;
      message.set_chunk(std::string(100'000, 'x'));
      open = co_await call->Write(std::move(message));
    }
    const absl::StatusOr<v1::ImportSessionResponse> made = co_await call->Finish();
    EXPECT_EQ(made.status(), absl::ResourceExhaustedError("too many uploads"));
  };
  Run(test());
}

TEST_F(CallsTest, CancelEndsAnUploadThatNobodyReads) {
  fake_.sessions.import_session = [](grpc::ServerContext* context, Reader* const&, auto*) {
    AwaitCancel(*context);
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartImport();
    asio::steady_timer soon(loop_, std::chrono::milliseconds(50));
    soon.async_wait([&](const boost::system::error_code&) { call->Cancel(); });
    bool open = true;
    while (open) {
      v1::ImportSessionRequest message;
      message.set_chunk(std::string(3'000'000, 'x'));  // more than may be on its way
      open = co_await call->Write(std::move(message));
    }
    const absl::StatusOr<v1::ImportSessionResponse> made = co_await call->Finish();
    EXPECT_TRUE(absl::IsCancelled(made.status()));
  };
  Run(test());
}

TEST_F(CallsTest, AbandonedUploadIsCancelled) {
  std::promise<bool> cancelled;
  fake_.sessions.import_session = [&](grpc::ServerContext* context, Reader* const& reader, auto*) {
    v1::ImportSessionRequest message;
    reader->Read(&message);
    AwaitCancel(*context);
    cancelled.set_value(true);
    return grpc::Status::OK;
  };
  const auto test = [&]() -> asio::awaitable<void> {
    const auto call = StartImport();
    const bool open = co_await call->Write(v1::ImportSessionRequest());
    EXPECT_TRUE(open);
    call->Cancel();
  };
  Run(test());
  EXPECT_TRUE(cancelled.get_future().get());
}

TEST_F(CallsTest, HangUpCancelsAUnaryCall) {
  std::promise<void> asked;
  std::promise<absl::Status> outcome;
  fake_.sessions.get = [&](grpc::ServerContext* context, const auto&, auto*) {
    asked.set_value();
    AwaitCancel(*context);
    return grpc::Status::OK;
  };
  std::unique_ptr<Upstream> upstream;
  asio::any_io_executor loop;
  const auto handler = [&](Exchange& exchange) -> asio::awaitable<void> {
    loop = exchange.executor();
    upstream = Open(loop);
    CallHeaders headers = {.request_id = "r"};
    const auto got = co_await Unary<v1::GetSessionRequest, v1::GetSessionResponse>(
        exchange, headers, upstream->Next(), &Sessions::PrepareAsyncGetSession,
        v1::GetSessionRequest());
    outcome.set_value(got.status());
  };
  LoopbackServer server({}, handler);
  RawClient client(server.port());
  client.Send("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
  asked.get_future().wait();
  client.Close();
  EXPECT_TRUE(absl::IsCancelled(outcome.get_future().get()));
  asio::post(loop, asio::use_future([&] { upstream.reset(); })).get();  // the loop outlives it
}

// What a client gave up, and so the server saw reset; not what the server ended itself.
TEST(CallContextTest, CallsThatAreGivenUpCountAgainstTheClient) {
  using Code = grpc::StatusCode;
  struct Case {
    bool cancelled;
    std::optional<grpc::Status> end;  // nothing: it goes before it has one
    bool counts;
  };
  for (const auto& [cancelled, end, counts] :
       std::vector<Case>{{true, std::nullopt, true},
                         {true, kCancelled, true},
                         {false, grpc::Status(Code::DEADLINE_EXCEEDED, "Deadline Exceeded"), true},
                         {false, std::nullopt, false},
                         {true, grpc::Status::OK, false},
                         {true, grpc::Status(Code::NOT_FOUND, "model"), false},
                         {false, kCancelled, false},
                         {false, grpc::Status(Code::DEADLINE_EXCEEDED, "slow"), false}}) {
    const auto peer = std::make_shared<Peer>();
    for (int i = 0; i < 1200; ++i) {
      CallContext context({.request_id = "r", .peer = peer});
      if (cancelled) context.Cancel();
      if (end) (void)context.Ended(*end, /*answered=*/true);
    }
    const Peer::Standing standing = peer->StandingAt(std::chrono::steady_clock::now());
    EXPECT_EQ(standing != Peer::Standing::kGood, counts)
        << cancelled << " " << (end ? end->error_message() : "no end");
  }
}

}  // namespace
}  // namespace tvq::gateway
