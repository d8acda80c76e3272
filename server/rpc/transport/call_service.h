#ifndef TVQ_SERVER_RPC_TRANSPORT_CALL_SERVICE_H_
#define TVQ_SERVER_RPC_TRANSPORT_CALL_SERVICE_H_

#include <grpcpp/impl/service_type.h>

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "server/rpc/transport/rpc.h"

namespace tvq {

// The methods of a service, whose calls come as raw bytes (see wire.h) over the queues of threads.
class CallService : public grpc::Service {
 public:
  ~CallService() override;

  // Takes the calls that come over the thread's queue, and begins them there. When the server has
  // started.
  void Take(CallThread* thread);

 protected:
  CallService();

  enum class Requests { kOne, kStream };
  using Begin = std::function<void(std::unique_ptr<Rpc> rpc)>;

  // Before the server starts. `path`: "/tvq.v1.GenerationService/Generate".
  void Add(std::string path, Requests requests, Begin begin);

 private:
  struct Method {
    std::string path;
    Requests requests;
    Begin begin;
  };
  class Taker;

  std::deque<Method> methods_;  // which gRPC has by their paths
  std::vector<std::unique_ptr<Taker>> takers_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_TRANSPORT_CALL_SERVICE_H_
