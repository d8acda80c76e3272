#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "server/rpc/services/server.h"
#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class HealthTest : public testing::Test {
 protected:
  HealthTest() {
    auto server = Server::Start(engine_.engine.get(), nullptr, {}, {.port = 0});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                   grpc::InsecureChannelCredentials());
    stub_ = Health::NewStub(channel_);
  }

  grpc::Status Check(const std::string& service, HealthCheckResponse* response) {
    HealthCheckRequest request;
    request.set_service(service);
    grpc::ClientContext context;
    return stub_->Check(&context, request, response);
  }

  // One call of Watch at a time.
  void Watch(const std::string& service) {
    HealthCheckRequest request;
    request.set_service(service);
    context_ = std::make_unique<grpc::ClientContext>();
    context_->set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
    watch_ = stub_->Watch(context_.get(), request);
  }
  HealthCheckResponse::ServingStatus Next() {
    HealthCheckResponse response;
    return watch_->Read(&response) ? response.status() : HealthCheckResponse::UNKNOWN;
  }

  Harness engine_;
  std::unique_ptr<Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<Health::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> watch_;
};

TEST_F(HealthTest, ChecksTheServicesThatTheServerHas) {
  for (const char* service : {"", "tvq.v1.GenerationService", "tvq.v1.ModelService"}) {
    HealthCheckResponse response;
    const grpc::Status status = Check(service, &response);
    EXPECT_TRUE(status.ok()) << service << ": " << status.error_message();
    EXPECT_EQ(response.status(), HealthCheckResponse::SERVING) << service;
  }
  for (const char* service : {"tvq.v1.SessionService", "tvq.v1.AdminService", "other"}) {
    HealthCheckResponse response;
    EXPECT_EQ(Check(service, &response).error_code(), grpc::StatusCode::NOT_FOUND) << service;
  }
}

TEST_F(HealthTest, RefusesWhatIsNoRequest) {
  for (const char* method : {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) {
    grpc::GenericStub stub(channel_);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    const grpc::Slice text("no message");
    const auto call = stub.PrepareUnaryCall(&context, method, grpc::ByteBuffer(&text, 1), &queue);
    grpc::ByteBuffer response;
    grpc::Status status;
    call->StartCall();
    call->Finish(&response, &status, nullptr);
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue.Next(&tag, &ok));
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << method;
  }
}

TEST_F(HealthTest, WatchTellsEachChangeUntilTheServerEnds) {
  Watch("");
  EXPECT_EQ(Next(), HealthCheckResponse::SERVING);
  server_->SetProgressing(true);  // no change
  server_->SetProgressing(false);
  EXPECT_EQ(Next(), HealthCheckResponse::NOT_SERVING);
  server_->SetProgressing(true);
  EXPECT_EQ(Next(), HealthCheckResponse::SERVING);
  server_->SetDraining();
  EXPECT_EQ(Next(), HealthCheckResponse::NOT_SERVING);
  server_->Shutdown(std::chrono::steady_clock::now());
  EXPECT_EQ(Next(), HealthCheckResponse::UNKNOWN);
  EXPECT_FALSE(watch_->Finish().ok());
}

TEST_F(HealthTest, WatchOfAnUnknownServiceStaysOpen) {
  Watch("other");
  EXPECT_EQ(Next(), HealthCheckResponse::SERVICE_UNKNOWN);
  server_->SetProgressing(false);  // is not told
  server_->Shutdown(std::chrono::steady_clock::now());
  EXPECT_EQ(Next(), HealthCheckResponse::UNKNOWN);
  EXPECT_FALSE(watch_->Finish().ok());
}

TEST_F(HealthTest, WatchEndsWithItsClient) {
  Watch("");
  EXPECT_EQ(Next(), HealthCheckResponse::SERVING);
  context_->TryCancel();
  EXPECT_EQ(watch_->Finish().error_code(), grpc::StatusCode::CANCELLED);
  server_->SetProgressing(false);
  HealthCheckResponse response;
  ASSERT_TRUE(Check("", &response).ok());
  EXPECT_EQ(response.status(), HealthCheckResponse::NOT_SERVING);
}

}  // namespace
}  // namespace tvq
