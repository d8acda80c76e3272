#include "server/rpc/services/admin_service.h"

#include <spdlog/spdlog.h>

#include <string>
#include <utility>

#include "base/refusal.h"
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
class AdoptCall final : public Call {
 public:
  using Call::Call;

  void Begin() override {
    if (!Admit()) return;
    End(Refused(
        Reason::kMethodUnknown,
        "no server takes a session over: let them share a Redis (--redis), start one in the "
        "directory of another (--session-dir), or use ExportSession and ImportSession"));
  }
};

}  // namespace

AdminService::AdminService(const CallContext& context, Credentials* credentials, BeginDrain drain)
    : TvqService(context), credentials_(credentials), drain_(std::move(drain)) {
  AddUnary<v1::DrainRequest, v1::DrainResponse>(
      {.info = kDrain,
       .handle = [this](auto& caller, auto& q, auto* r) { return Drain(caller, q, r); }});
  AddCalls<AdoptCall>(kAdopt, Requests::kStream);
  AddUnary<v1::ReloadCredentialsRequest, v1::ReloadCredentialsResponse>(
      {.info = kReloadCredentials,
       .handle = [this](auto& caller, auto&, auto* r) { return Reload(caller, r); },
       .where = RunOn::kWorkers});  // reads files
}

absl::Status AdminService::Drain(const Caller& caller, const v1::DrainRequest& request,
                                 v1::DrainResponse* response) const {
  spdlog::warn("{} asks the server to drain", caller.owner);
  const absl::StatusOr<DrainOrder> order = ToDrainOrder(request);
  if (!order.ok()) return order.status();
  response->set_requests_running(context().engine->stats().requests_running);
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

}  // namespace tvq
