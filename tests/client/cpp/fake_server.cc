#include "tests/client/cpp/fake_server.h"

#include <chrono>

#include "absl/strings/str_cat.h"

namespace tvq::client {

FakeServer::FakeServer(const std::shared_ptr<grpc::ServerCredentials>& credentials) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port_);
  builder.RegisterService(&sessions);
  builder.RegisterService(&generation);
  builder.RegisterService(&admin);
  server_ = builder.BuildAndStart();
}

FakeServer::~FakeServer() { server_->Shutdown(std::chrono::system_clock::now()); }

void FakeServer::Close() { server_->Shutdown(); }

std::string FakeServer::address() const { return absl::StrCat("127.0.0.1:", port_); }

std::string Header(const grpc::ServerContext& context, const std::string& name) {
  const auto it = context.client_metadata().find(name);
  return it == context.client_metadata().end() ? ""
                                               : std::string(it->second.data(), it->second.size());
}

}  // namespace tvq::client
