// A server and a client of gRPC in this process, without any service.
#ifndef TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_GRPC_CONNECTION_H_
#define TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_GRPC_CONNECTION_H_

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "server/rpc/limits/connections/channelz.h"

namespace tvq {

// Calls begin and are not answered until that is asked for.
class SilentService : public grpc::CallbackGenericService {
 public:
  void WaitForCalls(int count) {
    absl::MutexLock lock(&mutex_);
    const auto begun = [&] { return begun_ >= count; };
    mutex_.Await(absl::Condition(&begun));
  }

  // The latest call, with an empty message.
  void Answer() {
    absl::MutexLock lock(&mutex_);
    latest_->Answer();
  }

 private:
  class Reactor : public grpc::ServerGenericBidiReactor {
   public:
    void Answer() { StartWriteAndFinish(&empty_, grpc::WriteOptions(), grpc::Status::OK); }

   private:
    void OnCancel() override { Finish(grpc::Status::CANCELLED); }
    void OnDone() override { delete this; }

    const grpc::ByteBuffer empty_{nullptr, 0};
  };

  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    absl::MutexLock lock(&mutex_);
    ++begun_;
    return latest_ = new Reactor;
  }

  absl::Mutex mutex_;
  int begun_ = 0;
  Reactor* latest_ = nullptr;
};

class GrpcConnection {
 public:
  // `host` as in a URL.
  explicit GrpcConnection(const std::string& host) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(absl::StrCat(host, ":0"), grpc::InsecureServerCredentials(), &port_);
    builder.RegisterCallbackGenericService(&silent_);
    server_ = builder.BuildAndStart();
    channel_ =
        grpc::CreateChannel(absl::StrCat(host, ":", port_), grpc::InsecureChannelCredentials());
  }
  ~GrpcConnection() { server_->Shutdown(std::chrono::system_clock::now()); }

  int port() const { return port_; }

  void Answer() { silent_.Answer(); }

  // Of the client, or of others that connected.
  std::vector<Connection> open() const { return OpenConnectionsAt(port_); }

  // Has come to the server when it is constructed.
  class Call {
   public:
    explicit Call(GrpcConnection& on) : stub_(on.channel_) {
      stub_.UnaryCall(&context_, "/silent/Call", grpc::StubOptions(), &request_, &response_,
                      [this](const grpc::Status& status) {
                        status_ = status;
                        ended_.Notify();
                      });
      on.silent_.WaitForCalls(++on.calls_);
    }

    void Reset() { context_.TryCancel(); }

    grpc::StatusCode Wait() {
      ended_.WaitForNotification();
      return status_.error_code();
    }

   private:
    grpc::GenericStub stub_;
    grpc::ClientContext context_;
    grpc::ByteBuffer request_{nullptr, 0};
    grpc::ByteBuffer response_;
    grpc::Status status_;
    absl::Notification ended_;
  };

 private:
  SilentService silent_;
  int calls_ = 0;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_RPC_LIMITS_CONNECTIONS_GRPC_CONNECTION_H_
