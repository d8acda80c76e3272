// Conversations that a model's own template writes, on a server with sessions.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/rpc/services/server.h"
#include "tests/server/engine/harness.h"
#include "tests/server/rpc/fake_conversations.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr char kHello[] = R"([{"role": "user", "content": "hello"}])";

struct Answer {
  grpc::Status status;
  std::string text;
  v1::Usage usage;
  v1::SessionPosition session;
};

// The conversation after an answer to it, and what the user says then.
std::string Then(const std::string& messages, const std::string& answer, const std::string& next) {
  auto list = nlohmann::json::parse(messages);
  list.push_back({{"role", "assistant"}, {"content", answer}});
  list.push_back({{"role", "user"}, {"content", next}});
  return list.dump();
}

class ConversationCallsTest : public testing::Test {
 protected:
  explicit ConversationCallsTest(const ConversationWriter* writer = &Writer(),
                                 const RequestLimits& limits = {})
      : engine_({.add_bos_token = true, .conversations = writer}),
        store_(
            SessionStore::Open(engine_.engine.get(), {.host_bytes = 1'000'000}, nullptr).value()),
        server_(Server::Start(engine_.engine.get(), store_.get(), {}, {.port = 0, .limits = limits})
                    .value()) {
    const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                             grpc::InsecureChannelCredentials());
    sessions_ = v1::SessionService::NewStub(channel);
    generation_ = v1::GenerationService::NewStub(channel);
    models_ = v1::ModelService::NewStub(channel);
  }

  static const FakeConversations& Writer() {
    static const FakeConversations& writer = *new FakeConversations;
    return writer;
  }

  std::string NewSession(bool keep_transcript = true) {
    grpc::ClientContext context;
    v1::CreateSessionRequest request;
    request.set_keep_transcript(keep_transcript);
    v1::CreateSessionResponse response;
    EXPECT_TRUE(sessions_->CreateSession(&context, request, &response).ok());
    return response.session().id();
  }

  std::vector<int32_t> Held(const std::string& id) {
    grpc::ClientContext context;
    v1::GetSessionRequest request;
    request.set_session_id(id);
    request.set_include_transcript(true);
    v1::GetSessionResponse response;
    EXPECT_TRUE(sessions_->GetSession(&context, request, &response).ok());
    return {response.transcript().begin(), response.transcript().end()};
  }

  static v1::GenerateRequest Ask(const std::string& messages, const std::string& session = "") {
    v1::GenerateRequest request;
    request.mutable_conversation()->set_messages(messages);
    if (!session.empty()) request.mutable_session()->set_session_id(session);
    request.mutable_sampling()->set_temperature(0);
    request.mutable_sampling()->set_max_tokens(5);
    request.mutable_sampling()->set_ignore_eos(true);
    return request;
  }

  Answer Generate(const v1::GenerateRequest& request) {
    grpc::ClientContext context;
    const auto reader = generation_->Generate(&context, request);
    Answer answer;
    v1::GenerateResponse message;
    while (reader->Read(&message)) {
      for (const v1::SampleDelta& delta : message.deltas()) answer.text += delta.text();
      if (message.has_usage()) answer.usage = message.usage();
      if (message.has_session()) answer.session = message.session();
    }
    answer.status = reader->Finish();
    return answer;
  }

  // As of a context that has no other past.
  void ExpectAsNew(const Answer& answer, v1::GenerateRequest request) {
    ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
    request.clear_session();
    EXPECT_EQ(answer.text, Generate(request).text);
  }

  Harness engine_;
  std::unique_ptr<SessionStore> store_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<v1::ModelService::Stub> models_;
};

TEST_F(ConversationCallsTest, AreWrittenByTheTemplateAlone) {
  v1::TokenizeRequest request;
  request.mutable_conversation()->set_messages(kHello);
  request.mutable_conversation()->set_tools("[]");
  request.mutable_conversation()->set_template_name("tool_use");
  const auto tokenize = [&] {
    grpc::ClientContext context;
    v1::TokenizeResponse response;
    const auto status = generation_->Tokenize(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  };
  EXPECT_EQ(tokenize().text(), "u:hello</s>t:[]n:tool_usea:");
  request.mutable_conversation()->set_add_generation_prompt(false);
  EXPECT_EQ(tokenize().text(), "u:hello</s>t:[]n:tool_use");
  request.mutable_conversation()->clear_add_generation_prompt();
  request.mutable_conversation()->set_continue_final_message(true);
  EXPECT_EQ(tokenize().text(), "u:hello");
  EXPECT_THAT(tokenize().token_ids(), ElementsAreArray(Ids("u:hello"))) << "no begin id";
  request.mutable_conversation()->set_messages(
      absl::StrCat(R"([{"role": "user", "content": ")", std::string(10'000, 'x'), R"("}])"));
  EXPECT_EQ(tokenize().token_ids_size(), 10'002) << "on a worker's thread like any long text";

  v1::GenerateRequest ids = Ask(kHello);
  const Answer answer = Generate(ids);
  EXPECT_EQ(answer.usage.prompt_tokens(), 10);
  for (const int32_t id : Ids("u:hello")) ids.mutable_token_ids()->add_ids(id);
  ids.mutable_token_ids()->add_ids(kEos);
  for (const int32_t id : Ids("a:")) ids.mutable_token_ids()->add_ids(id);
  ExpectAsNew(answer, ids);

  grpc::ClientContext context;
  v1::GetModelResponse model;
  ASSERT_TRUE(models_->GetModel(&context, {}, &model).ok());
  EXPECT_THAT(model.model().conversation_templates(), ElementsAre("default", "tool_use"));
}

TEST_F(ConversationCallsTest, WhatIsWrongIsNamed) {
  const auto wrong = [&](const std::string& messages) {
    const Answer answer = Generate(Ask(messages));
    EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return answer.status.error_message();
  };
  EXPECT_EQ(wrong("{"), "conversation.messages: is not a list");
  EXPECT_EQ(wrong(R"([{"role": "nobody"}])"), "conversation: roles must be known");
  v1::GenerateRequest request = Ask("[]");
  request.mutable_conversation()->set_add_generation_prompt(false);
  EXPECT_THAT(Generate(request).status.error_message(), HasSubstr("must have at least one token"));
  request = Ask(kHello);
  request.set_answer_suffix("x");
  EXPECT_THAT(Generate(request).status.error_message(),
              HasSubstr("answer_suffix: is set beside conversation"));
}

TEST_F(ConversationCallsTest, ATurnOnASessionFeedsWhatIsNew) {
  const std::string session = NewSession();
  const Answer first = Generate(Ask(kHello, session));
  ExpectAsNew(first, Ask(kHello));
  const std::string messages = Then(kHello, first.text, "more");
  const Answer second = Generate(Ask(messages, session));
  ExpectAsNew(second, Ask(messages));
  EXPECT_EQ(second.usage.prompt_tokens(), 1 + 6 + 1 + 2);  // </s>u:more</s>a:
  EXPECT_EQ(second.usage.reread_tokens(), 0);
  EXPECT_EQ(second.session.version(), first.session.version() + 1);
  EXPECT_EQ(second.session.position(), 10 + 5 + 10 + 5);
}

TEST_F(ConversationCallsTest, ASessionGoesBackToWhereItIsTheSame) {
  const std::string session = NewSession();
  const Answer first = Generate(Ask(kHello, session));
  v1::GenerateRequest request = Ask(Then(kHello, first.text, "more"), session);
  request.mutable_conversation()->set_template_kwargs(R"({"hide": true})");
  request.mutable_session()->set_idempotency_key("k");
  const Answer second = Generate(request);
  ExpectAsNew(second, request);
  EXPECT_EQ(second.usage.prompt_tokens(), 10 + 10);
  EXPECT_EQ(second.usage.reread_tokens(), 15) << "all that was there, up to the answer's end";
  EXPECT_EQ(second.session.version(), first.session.version() + 1);
  EXPECT_EQ(second.session.position(), 10 + 10 + 5);
  std::vector<int32_t> held = Ids(absl::StrCat("u:hello?a:?u:more?a:", second.text));
  for (int32_t& id : held) id = id == ByteId('?') ? kEos : id;
  EXPECT_EQ(Held(session), held);
  const Answer again = Generate(request);
  EXPECT_EQ(again.text, second.text);
  EXPECT_EQ(again.usage.reread_tokens(), 15);
  EXPECT_EQ(again.session.version(), second.session.version()) << "a retry does nothing twice";
}

TEST_F(ConversationCallsTest, AMarkSparesReading) {
  const std::string session = NewSession();
  const Answer first = Generate(Ask(kHello, session));
  {
    grpc::ClientContext context;
    v1::MarkSessionRequest mark;
    mark.mutable_session()->set_session_id(session);
    mark.set_name("m");
    v1::MarkSessionResponse response;
    ASSERT_TRUE(sessions_->MarkSession(&context, mark, &response).ok());
  }
  const Answer second = Generate(Ask(Then(kHello, first.text, "more"), session));
  const v1::GenerateRequest other = Ask(Then(kHello, first.text, "less"), session);
  const Answer third = Generate(other);
  ExpectAsNew(third, other);
  EXPECT_EQ(third.usage.prompt_tokens(), 10);
  EXPECT_EQ(third.usage.reread_tokens(), 10) << "in the place of what the second turn added";
  EXPECT_EQ(third.session.position(), second.session.position());
}

TEST_F(ConversationCallsTest, AFailedTurnLeavesTheSessionAsItWas) {
  const std::string session = NewSession();
  const Answer first = Generate(Ask(kHello, session));
  const std::vector<int32_t> held = Held(session);
  v1::GenerateRequest request = Ask(R"([{"role": "user", "content": "other"}])", session);
  request.mutable_sampling()->set_top_p(2);
  EXPECT_FALSE(Generate(request).status.ok());
  EXPECT_EQ(Held(session), held);
  const std::string messages = Then(kHello, first.text, "more");
  ExpectAsNew(Generate(Ask(messages, session)), Ask(messages));
}

TEST_F(ConversationCallsTest, ASessionMustKnowItsTokens) {
  const Answer answer = Generate(Ask(kHello, NewSession(/*keep_transcript=*/false)));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(answer.status.error_message(), HasSubstr("keeps no transcript"));
}

TEST_F(ConversationCallsTest, BeginsAStateAndContinuesNone) {
  const auto generate = [&](const std::string& chunk) {
    grpc::ClientContext context;
    const auto stream = generation_->GenerateWithState(&context);
    v1::GenerateWithStateRequest request;
    *request.mutable_generate() = Ask(kHello);
    stream->Write(request);
    if (!chunk.empty()) {
      request.clear_generate();
      request.set_chunk(chunk);
      stream->Write(request);
    }
    stream->WritesDone();
    Answer answer;
    v1::GenerateWithStateResponse message;
    while (stream->Read(&message)) {
      for (const auto& delta : message.generate().deltas()) answer.text += delta.text();
    }
    answer.status = stream->Finish();
    return answer;
  };
  ExpectAsNew(generate(""), Ask(kHello));
  EXPECT_THAT(generate("x").status.error_message(), HasSubstr("generate.conversation: "));
}

// A template that runs until it is told to end.
class SlowConversations final : public FakeConversations {
 public:
  absl::StatusOr<Conversation> Write(const ConversationRequest& request) const override {
    ended.WaitForNotification();
    return FakeConversations::Write(request);
  }
  mutable absl::Notification ended;
};

class SlowTemplateTest : public ConversationCallsTest {
 protected:
  SlowTemplateTest() : ConversationCallsTest(&Slow()) {}

  static const SlowConversations& Slow() {
    static const SlowConversations& writer = *new SlowConversations;
    return writer;
  }
};

TEST_F(SlowTemplateTest, HoldsUpNoSessionThatWaitsForNone) {
  constexpr int kTurns = 32;  // more than there are threads for sessions
  std::vector<grpc::ClientContext> contexts(kTurns);
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> turns;
  turns.reserve(kTurns);
  for (grpc::ClientContext& context : contexts) {
    turns.push_back(generation_->Generate(&context, Ask(kHello, NewSession())));
  }
  const std::string other = NewSession();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  v1::AppendSessionRequest request;
  request.mutable_session()->set_session_id(other);
  request.set_text("abc");
  v1::AppendSessionResponse response;
  const grpc::Status appended = sessions_->AppendSession(&context, request, &response);
  Slow().ended.Notify();
  EXPECT_TRUE(appended.ok()) << appended.error_message();
  for (const auto& turn : turns) {
    v1::GenerateResponse message;
    while (turn->Read(&message)) continue;
    const grpc::Status status = turn->Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
}

class WithoutTemplateTest : public ConversationCallsTest {
 protected:
  WithoutTemplateTest() : ConversationCallsTest(nullptr) {}
};

TEST_F(WithoutTemplateTest, RefusesConversations) {
  const Answer answer = Generate(Ask(kHello));
  EXPECT_EQ(answer.status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(answer.status.error_message(),
              HasSubstr("model: \"fake\" has no chat template of its own"));
}

class ShortPromptsTest : public ConversationCallsTest {
 protected:
  ShortPromptsTest() : ConversationCallsTest(&Writer(), {.max_prompt_tokens = 9}) {}
};

TEST_F(ShortPromptsTest, RefuseLongConversations) {
  EXPECT_THAT(Generate(Ask(kHello)).status.error_message(),
              HasSubstr("conversation: has 10 tokens, must have at most 9"));
  EXPECT_THAT(Generate(Ask(std::string(1000, '['))).status.error_message(),
              HasSubstr("conversation: has 1000 bytes"))
      << "before it is read";
}

}  // namespace
}  // namespace tvq
