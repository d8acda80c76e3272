// From an engine that hangs to what the health service says.
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "server/rpc/services/server.h"
#include "server/startup/watchdog.h"
#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

constexpr int kServing = 1;
constexpr int kNotServing = 2;

// HealthCheckResponse.status of the server as a whole. The messages by hand: gRPC's package has no
// stubs of them.
int Health(int port) {
  const auto channel =
      grpc::CreateChannel(absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials());
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  grpc::CompletionQueue queue;
  const grpc::Slice no_fields("");
  const auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                          grpc::ByteBuffer(&no_fields, 1), &queue);
  grpc::ByteBuffer response;
  grpc::Status status;
  call->StartCall();
  call->Finish(&response, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  EXPECT_TRUE(queue.Next(&tag, &ok));
  EXPECT_TRUE(status.ok()) << status.error_message();
  grpc::Slice slice;
  if (!response.DumpToSingleSlice(&slice).ok() || slice.size() != 2) return -1;
  return slice.begin()[1];  // after the tag of field 1
}

void WaitForHealth(int port, int expected) {
  while (Health(port) != expected) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

TEST(WatchdogHealthTest, AStepThatHangsTurnsHealthUntilItMovesOn) {
  absl::Notification move_on;
  std::atomic<bool> hang{true};
  Harness harness({}, SmallOptions(), [&](std::string_view) {
    if (hang.exchange(false)) move_on.WaitForNotification();
    return absl::OkStatus();
  });
  auto server = Server::Start(harness.engine.get(), nullptr, {}, {.port = 0});
  ASSERT_TRUE(server.ok()) << server.status();
  const int port = (*server)->port();
  const Watchdog watchdog(
      {.step_began = [&] { return harness.engine->stats().step_began; },
       .now = std::chrono::steady_clock::now,
       .on_change = [&](bool progressing) { (*server)->SetProgressing(progressing); }},
      std::chrono::milliseconds(5));
  EXPECT_EQ(Health(port), kServing);

  const auto sink = std::make_shared<RecordingSink>();
  ASSERT_TRUE(harness.engine->Submit(Ask(sink, "abc", {.max_tokens = 3})).ok());
  WaitForHealth(port, kNotServing);

  move_on.Notify();
  EXPECT_TRUE(sink->Wait().ok());
  WaitForHealth(port, kServing);
}

TEST(WatchdogHealthTest, ProgressDoesNotMakeADrainingServerHealthy) {
  Harness harness;
  auto server = Server::Start(harness.engine.get(), nullptr, {}, {.port = 0});
  ASSERT_TRUE(server.ok()) << server.status();
  (*server)->SetProgressing(false);
  (*server)->SetDraining();
  (*server)->SetProgressing(true);
  EXPECT_EQ(Health((*server)->port()), kNotServing);
}

}  // namespace
}  // namespace tvq
