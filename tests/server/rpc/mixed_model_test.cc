// A model whose layers keep quantized keys, all keys in pages, or sums of features, behind a server
// with sessions on a disk: whatever becomes of a session, it goes on with the same bits.
#include "tests/models/runtime/stack/mixed_model.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/device/device.h"
#include "server/engine/engine.h"
#include "server/rpc/services/server.h"
#include "server/sessions/durable/disk/tier_disk.h"
#include "server/sessions/session_store.h"
#include "tests/models/runtime/temp_dir.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {
namespace {

// Up to near the end of a page, which the answer crosses.
constexpr int kPrompt = 240, kAnswer = 40;

struct Answer {
  std::vector<int32_t> ids;
  std::vector<float> logprobs;

  bool operator==(const Answer&) const = default;
};

// A process of the server.
class Serving {
 public:
  explicit Serving(const std::string& directory) {
    std::vector<ServedModel> models;
    models.push_back({"mixed", NewMixedModel(MakeDevice("cpu", 2).value(), {.reads_text = true})});
    engine_ = Engine::Create(std::move(models), {.state_memory_bytes = 64 << 20}).value();
    store_ = SessionStore::Open(engine_.get(), {.host_bytes = 64 << 20},
                                DiskTier::Open(directory, 0).value())
                 .value();
    server_ = Server::Start(engine_.get(), store_.get(), {}, {.port = 0}).value();
    const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                             grpc::InsecureChannelCredentials());
    sessions_ = v1::SessionService::NewStub(channel);
    generation_ = v1::GenerationService::NewStub(channel);
  }

  std::string Create() {
    grpc::ClientContext context;
    v1::CreateSessionResponse response;
    Expect(sessions_->CreateSession(&context, {}, &response));
    return response.session().id();
  }

  std::string Fork(const std::string& id) {
    grpc::ClientContext context;
    v1::ForkSessionRequest request;
    request.mutable_session()->set_session_id(id);
    v1::ForkSessionResponse response;
    Expect(sessions_->ForkSession(&context, request, &response));
    return response.sessions(0).id();
  }

  Answer Generate(const std::string& id, const std::string& text) {
    grpc::ClientContext context;
    v1::GenerateRequest request;
    request.mutable_session()->set_session_id(id);
    request.set_text(text);
    request.mutable_sampling()->set_seed(5);
    request.mutable_sampling()->set_max_tokens(kAnswer);
    request.mutable_sampling()->set_ignore_eos(true);
    request.mutable_sampling()->set_logprobs(0);
    const auto reader = generation_->Generate(&context, request);
    Answer answer;
    for (v1::GenerateResponse message; reader->Read(&message);) {
      for (const v1::SampleDelta& delta : message.deltas()) {
        answer.ids.insert(answer.ids.end(), delta.token_ids().begin(), delta.token_ids().end());
        for (const auto& token : delta.logprobs()) {
          answer.logprobs.push_back(token.token().logprob());
        }
      }
    }
    Expect(reader->Finish());
    EXPECT_EQ(answer.logprobs.size(), kAnswer);
    return answer;
  }

  template <typename Request, typename Response>
  void Change(const std::string& id,
              grpc::Status (v1::SessionService::Stub::*call)(grpc::ClientContext*, const Request&,
                                                             Response*),
              Request request = {}) {
    grpc::ClientContext context;
    request.mutable_session()->set_session_id(id);
    Response response;
    Expect((*sessions_.*call)(&context, request, &response));
  }

 private:
  static void Expect(const grpc::Status& status) {
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  std::unique_ptr<Engine> engine_;
  std::unique_ptr<SessionStore> store_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<v1::SessionService::Stub> sessions_;
  std::unique_ptr<v1::GenerationService::Stub> generation_;
};

TEST(MixedModelTest, WhatIsSavedForkedRewoundAndRestoredGoesOnWithTheSameBits) {
  const fixtures::TempDir directory;
  std::string id, fork, stored;
  Answer wanted;
  {
    Serving serving(directory.path());
    id = serving.Create();
    std::string prompt;
    for (int i = 0; i < kPrompt - kAnswer; ++i) prompt += static_cast<char>('a' + i * i % 26);
    serving.Generate(id, prompt);
    v1::MarkSessionRequest mark;
    mark.set_name("here");
    serving.Change(id, &v1::SessionService::Stub::MarkSession, mark);
    fork = serving.Fork(id);
    stored = serving.Fork(id);
    serving.Change(stored, &v1::SessionService::Stub::SaveSession, v1::SaveSessionRequest());
    wanted = serving.Generate(id, "and");
    EXPECT_EQ(serving.Generate(fork, "and"), wanted);
    v1::RewindSessionRequest rewind;
    rewind.set_mark("here");
    serving.Change(id, &v1::SessionService::Stub::RewindSession, rewind);
    EXPECT_EQ(serving.Generate(id, "and"), wanted);
    serving.Change(id, &v1::SessionService::Stub::RewindSession, rewind);
    serving.Change(id, &v1::SessionService::Stub::SaveSession, v1::SaveSessionRequest());
  }
  Serving other(directory.path());
  EXPECT_EQ(other.Generate(stored, "and"), wanted);
  EXPECT_EQ(other.Generate(id, "and"), wanted);
  v1::RewindSessionRequest rewind;
  rewind.set_mark("here");
  other.Change(id, &v1::SessionService::Stub::RewindSession, rewind);
  EXPECT_EQ(other.Generate(id, "and"), wanted);
}

}  // namespace
}  // namespace tvq
