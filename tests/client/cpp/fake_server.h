// A server whose answers a test writes: a handler for each method it calls. What has no handler is
// UNIMPLEMENTED.
#ifndef TVQ_TESTS_CLIENT_CPP_FAKE_SERVER_H_
#define TVQ_TESTS_CLIENT_CPP_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>

#include "tvq/v1/admin.grpc.pb.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq::client {

template <typename Request, typename Response>
using Handler = std::function<grpc::Status(grpc::ServerContext*, const Request&, Response*)>;

template <typename Request, typename Response, typename Context>
grpc::Status Answer(const Handler<Request, Response>& handler, Context* context,
                    const Request* request, Response* response) {
  if (!handler) return {grpc::StatusCode::UNIMPLEMENTED, "no handler"};
  return handler(context, *request, response);
}

class FakeSessions final : public v1::SessionService::Service {
 public:
  Handler<v1::CreateSessionRequest, v1::CreateSessionResponse> create;
  Handler<v1::GetSessionRequest, v1::GetSessionResponse> get;
  Handler<v1::ListSessionsRequest, v1::ListSessionsResponse> list;
  Handler<v1::AppendSessionRequest, v1::AppendSessionResponse> append;
  Handler<v1::ForkSessionRequest, v1::ForkSessionResponse> fork;
  Handler<v1::MarkSessionRequest, v1::MarkSessionResponse> mark;
  Handler<v1::UnmarkSessionRequest, v1::UnmarkSessionResponse> unmark;
  Handler<v1::RewindSessionRequest, v1::RewindSessionResponse> rewind;
  Handler<v1::SaveSessionRequest, v1::SaveSessionResponse> save;
  Handler<v1::DeleteSessionRequest, v1::DeleteSessionResponse> remove;
  Handler<v1::ExportSessionRequest, grpc::ServerWriter<v1::ExportSessionResponse>> export_session;
  Handler<grpc::ServerReader<v1::ImportSessionRequest>*, v1::ImportSessionResponse> import_session;

  grpc::Status CreateSession(grpc::ServerContext* context, const v1::CreateSessionRequest* request,
                             v1::CreateSessionResponse* response) override {
    return Answer(create, context, request, response);
  }
  grpc::Status GetSession(grpc::ServerContext* context, const v1::GetSessionRequest* request,
                          v1::GetSessionResponse* response) override {
    return Answer(get, context, request, response);
  }
  grpc::Status ListSessions(grpc::ServerContext* context, const v1::ListSessionsRequest* request,
                            v1::ListSessionsResponse* response) override {
    return Answer(list, context, request, response);
  }
  grpc::Status AppendSession(grpc::ServerContext* context, const v1::AppendSessionRequest* request,
                             v1::AppendSessionResponse* response) override {
    return Answer(append, context, request, response);
  }
  grpc::Status ForkSession(grpc::ServerContext* context, const v1::ForkSessionRequest* request,
                           v1::ForkSessionResponse* response) override {
    return Answer(fork, context, request, response);
  }
  grpc::Status MarkSession(grpc::ServerContext* context, const v1::MarkSessionRequest* request,
                           v1::MarkSessionResponse* response) override {
    return Answer(mark, context, request, response);
  }
  grpc::Status UnmarkSession(grpc::ServerContext* context, const v1::UnmarkSessionRequest* request,
                             v1::UnmarkSessionResponse* response) override {
    return Answer(unmark, context, request, response);
  }
  grpc::Status RewindSession(grpc::ServerContext* context, const v1::RewindSessionRequest* request,
                             v1::RewindSessionResponse* response) override {
    return Answer(rewind, context, request, response);
  }
  grpc::Status SaveSession(grpc::ServerContext* context, const v1::SaveSessionRequest* request,
                           v1::SaveSessionResponse* response) override {
    return Answer(save, context, request, response);
  }
  grpc::Status DeleteSession(grpc::ServerContext* context, const v1::DeleteSessionRequest* request,
                             v1::DeleteSessionResponse* response) override {
    return Answer(remove, context, request, response);
  }
  grpc::Status ExportSession(grpc::ServerContext* context, const v1::ExportSessionRequest* request,
                             grpc::ServerWriter<v1::ExportSessionResponse>* writer) override {
    return Answer(export_session, context, request, writer);
  }
  grpc::Status ImportSession(grpc::ServerContext* context,
                             grpc::ServerReader<v1::ImportSessionRequest>* reader,
                             v1::ImportSessionResponse* response) override {
    return Answer(import_session, context, &reader, response);
  }
};

using StateReaderWriter =
    grpc::ServerReaderWriter<v1::GenerateWithStateResponse, v1::GenerateWithStateRequest>;

class FakeGeneration final : public v1::GenerationService::Service {
 public:
  Handler<v1::GenerateRequest, grpc::ServerWriter<v1::GenerateResponse>> generate;
  std::function<grpc::Status(grpc::ServerContext*, StateReaderWriter*)> generate_with_state;

  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateResponse>* writer) override {
    return Answer(generate, context, request, writer);
  }
  grpc::Status GenerateWithState(grpc::ServerContext* context, StateReaderWriter* stream) override {
    return generate_with_state(context, stream);
  }
};

class FakeAdmin final : public v1::AdminService::Service {
 public:
  Handler<v1::DrainRequest, v1::DrainResponse> drain;
  Handler<v1::ReloadCredentialsRequest, v1::ReloadCredentialsResponse> reload;

  grpc::Status Drain(grpc::ServerContext* context, const v1::DrainRequest* request,
                     v1::DrainResponse* response) override {
    return Answer(drain, context, request, response);
  }
  grpc::Status ReloadCredentials(grpc::ServerContext* context,
                                 const v1::ReloadCredentialsRequest* request,
                                 v1::ReloadCredentialsResponse* response) override {
    return Answer(reload, context, request, response);
  }
};

// Listens on a free port of the loopback interface. Set handlers before the calls that need them.
class FakeServer {
 public:
  explicit FakeServer(const std::shared_ptr<grpc::ServerCredentials>& credentials =
                          grpc::InsecureServerCredentials());
  ~FakeServer();

  // HOST:PORT; an address and not a name, because resolving one leaks in c-ares.
  std::string address() const;

  // Tells clients to go, and returns when the calls that are open have ended.
  void Close();

  FakeSessions sessions;
  FakeGeneration generation;
  FakeAdmin admin;

 private:
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
};

// The value of a request's header; "" if it came without.
std::string Header(const grpc::ServerContext& context, const std::string& name);

}  // namespace tvq::client

#endif  // TVQ_TESTS_CLIENT_CPP_FAKE_SERVER_H_
