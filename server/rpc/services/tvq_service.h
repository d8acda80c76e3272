#ifndef TVQ_SERVER_RPC_SERVICES_TVQ_SERVICE_H_
#define TVQ_SERVER_RPC_SERVICES_TVQ_SERVICE_H_

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/transport/call_service.h"

namespace tvq {

// A service of proto/tvq/v1.
class TvqService : public CallService {
 protected:
  // `context` must outlive the service and its calls.
  explicit TvqService(const CallContext& context) : context_(context) {}

  // Each call is a `T`. `method` is a literal's.
  template <typename T>
  void AddCalls(const MethodInfo& method, Requests requests) {
    Add(Path(method), requests, [this, &method](std::unique_ptr<Rpc> rpc) {
      std::make_shared<T>(context_, method, std::move(rpc))->Begin();
    });
  }

  template <typename Request, typename Response>
  void AddUnary(UnaryMethod<Request, Response> method) {
    const std::string path = Path(method.info);
    Add(path, Requests::kOne, [this, method = std::move(method)](std::unique_ptr<Rpc> rpc) {
      std::make_shared<UnaryCall<Request, Response>>(context_, method, std::move(rpc))->Begin();
    });
  }

  const CallContext& context() const { return context_; }

 private:
  static std::string Path(const MethodInfo& method) {
    return absl::StrCat("/tvq.v1.", method.name);
  }

  const CallContext& context_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_SERVICES_TVQ_SERVICE_H_
