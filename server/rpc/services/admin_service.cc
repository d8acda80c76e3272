#include "server/rpc/services/admin_service.h"

#include <spdlog/spdlog.h>

#include <string>

#include "base/refusal.h"
#include "server/rpc/calls/call_scope.h"
#include "server/rpc/calls/unary_call.h"
#include "server/rpc/services/drain_convert.h"

namespace tvq {
namespace {

constexpr MethodInfo kDrain{"AdminService/Drain", Permission::kAdmin};
constexpr MethodInfo kAdopt{"AdminService/AdoptSession", Permission::kAdmin};
constexpr MethodInfo kReloadCredentials{"AdminService/ReloadCredentials", Permission::kAdmin};

// A file is wrong, not the call.
absl::Status FailedReload(const absl::Status& status) {
  return Refused(Reason::kCredentialsInvalid, MessageOf(status));
}

// One AdoptSession call, which is told what to do instead.
class AdoptCall final : public grpc::ServerReadReactor<grpc::ByteBuffer> {
 public:
  AdoptCall(const CallContext& context, grpc::CallbackServerContext* rpc)
      : scope_(context, kAdopt, rpc) {
    absl::Status status = scope_.Begin();
    if (status.ok()) {
      status = Refused(
          Reason::kMethodUnknown,
          "no server takes a session over: let them share a Redis (--redis), start one in the "
          "directory of another (--session-dir), or use ExportSession and ImportSession");
    }
    Finish(scope_.End(status));
  }

  void OnDone() override {
    scope_.Done();
    delete this;
  }

 private:
  CallScope scope_;
};

}  // namespace

absl::Status AdminService::BeginDraining(const v1::DrainRequest& request,
                                         v1::DrainResponse* response) const {
  const absl::StatusOr<DrainOrder> order = ToDrainOrder(request);
  if (!order.ok()) return order.status();
  response->set_requests_running(context_.engine->stats().requests_running);
  drain_(*order);
  return absl::OkStatus();
}

absl::Status AdminService::Reload(const Caller& caller,
                                  v1::ReloadCredentialsResponse* response) const {
  const absl::StatusOr<Credentials::Reloaded> reloaded = credentials_->Reload();
  if (!reloaded.ok()) {
    spdlog::warn("{} had credentials read again, the old ones stay: {}", caller.owner,
                 std::string(reloaded.status().message()));
    return FailedReload(reloaded.status());
  }
  spdlog::info("{} had credentials read again: {}", caller.owner, Describe(*reloaded));
  response->set_keys(static_cast<int32_t>(reloaded->keys));
  response->set_certificates_reloaded(reloaded->certificates);
  return absl::OkStatus();
}

grpc::ServerUnaryReactor* AdminService::Drain(grpc::CallbackServerContext* rpc,
                                              const grpc::ByteBuffer* in, grpc::ByteBuffer* out) {
  return BeginUnaryCall<v1::DrainRequest, v1::DrainResponse>(
      context_, kDrain, rpc, in, out,
      [this](const Caller& caller, const v1::DrainRequest& request, v1::DrainResponse* response) {
        spdlog::warn("{} asks the server to drain", caller.owner);
        return BeginDraining(request, response);
      });
}

grpc::ServerReadReactor<grpc::ByteBuffer>* AdminService::AdoptSession(
    grpc::CallbackServerContext* rpc, grpc::ByteBuffer*) {
  return new AdoptCall(context_, rpc);  // deletes itself when gRPC is done with it
}

grpc::ServerUnaryReactor* AdminService::ReloadCredentials(grpc::CallbackServerContext* rpc,
                                                          const grpc::ByteBuffer* in,
                                                          grpc::ByteBuffer* out) {
  return BeginUnaryCall<v1::ReloadCredentialsRequest, v1::ReloadCredentialsResponse>(
      context_, kReloadCredentials, rpc, in, out,
      [this](const Caller& caller, const auto&, v1::ReloadCredentialsResponse* response) {
        return Reload(caller, response);
      });
}

}  // namespace tvq
