#include "client/cpp/admin.h"

#include <gtest/gtest.h>

#include "client/cpp/client.h"
#include "tests/client/cpp/fake_server.h"

namespace tvq::client {
namespace {

TEST(AdminTest, DrainsAndReloads) {
  FakeServer server;
  server.admin.drain = [](auto*, const auto& request, auto* response) {
    EXPECT_EQ(request.timeout().seconds(), 5);
    response->set_requests_running(3);
    return grpc::Status::OK;
  };
  server.admin.reload = [](auto*, const auto&, auto* response) {
    response->set_keys(2);
    return grpc::Status::OK;
  };
  const auto client = *Client::Connect(server.address());
  v1::DrainRequest request;
  request.mutable_timeout()->set_seconds(5);
  const auto drained = client->admin().Drain(request);
  ASSERT_TRUE(drained.ok()) << drained.status();
  EXPECT_EQ(drained->requests_running(), 3);
  const auto reloaded = client->admin().ReloadCredentials();
  ASSERT_TRUE(reloaded.ok()) << reloaded.status();
  EXPECT_EQ(reloaded->keys(), 2);
}

TEST(AdminTest, PermissionIsTheServersToGive) {
  FakeServer server;
  server.admin.reload = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, "not an operator's key");
  };
  const auto client = *Client::Connect(server.address());
  EXPECT_TRUE(absl::IsPermissionDenied(client->admin().ReloadCredentials().status()));
}

}  // namespace
}  // namespace tvq::client
