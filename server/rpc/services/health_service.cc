#include "server/rpc/services/health_service.h"

#include <optional>
#include <utility>

#include "grpc/health/v1/health.pb.h"
#include "server/rpc/wire/wire.h"

namespace tvq {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

grpc::ByteBuffer Message(HealthCheckResponse::ServingStatus status) {
  HealthCheckResponse response;
  response.set_status(status);
  return *SerializeMessage(response);
}

HealthCheckResponse::ServingStatus StatusOf(bool serving) {
  return serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING;
}

grpc::Status NoRequest() { return {grpc::StatusCode::INVALID_ARGUMENT, "could not parse request"}; }

}  // namespace

// Holds itself until gRPC is done with it.
class HealthService::HealthCall : public RpcListener {
 public:
  explicit HealthCall(std::unique_ptr<Rpc> rpc) : rpc_(std::move(rpc)) { rpc_->Begin(this); }
  virtual ~HealthCall() = default;

  void OnDone() override { delete this; }

  Rpc& rpc() { return *rpc_; }

 private:
  const std::unique_ptr<Rpc> rpc_;
};

// Sends the status, and again when it is another. Keeps nothing of the request.
class HealthService::Watch final : public HealthCall {
 public:
  Watch(HealthService* health, std::unique_ptr<Rpc> rpc, bool known)
      : HealthCall(std::move(rpc)), health_(health), known_(known) {}
  ~Watch() override {
    const MutexLock lock(&health_->mutex_);
    health_->watches_.erase(this);
  }

  void Begin() {
    const MutexLock lock(&health_->mutex_);
    health_->watches_.insert(this);
    GoOn();
  }

  // Under the service's mutex.
  void GoOn() {
    health_->mutex_.AssertHeld();
    if (writing_ || finished_) return;
    const auto status = known_ ? StatusOf(health_->serving_) : HealthCheckResponse::SERVICE_UNKNOWN;
    if (gone_) {
      finished_ = true;
      rpc().Finish({grpc::StatusCode::CANCELLED, "the call was cancelled"});
    } else if (status != sent_) {
      sent_ = status;
      writing_ = true;
      rpc().Write(Message(status));
    }
  }

  void OnWritten(bool ok) override {
    const MutexLock lock(&health_->mutex_);
    writing_ = false;
    gone_ = gone_ || !ok;
    GoOn();
  }

  void OnCancel() override {
    const MutexLock lock(&health_->mutex_);
    gone_ = true;
    GoOn();
  }

 private:
  HealthService* const health_;
  const bool known_;
  // Guarded by its mutex.
  bool writing_ = false;
  bool gone_ = false;
  bool finished_ = false;
  HealthCheckResponse::ServingStatus sent_ = HealthCheckResponse::UNKNOWN;
};

HealthService::HealthService(std::set<std::string> services) : services_(std::move(services)) {
  Add("/grpc.health.v1.Health/Check", Requests::kOne,
      [this](std::unique_ptr<Rpc> rpc) { BeginCheck(std::move(rpc)); });
  Add("/grpc.health.v1.Health/Watch", Requests::kOne,
      [this](std::unique_ptr<Rpc> rpc) { BeginWatch(std::move(rpc)); });
}

void HealthService::SetServing(bool serving) {
  const MutexLock lock(&mutex_);
  serving_ = serving;
  for (Watch* const watch : watches_) watch->GoOn();
}

void HealthService::BeginCheck(std::unique_ptr<Rpc> rpc) {
  const std::optional<bool> known = Knows(rpc.get());
  Rpc& call = (new HealthCall(std::move(rpc)))->rpc();
  if (!known) return call.Finish(NoRequest());
  if (!*known) return call.Finish({grpc::StatusCode::NOT_FOUND, "service name unknown"});
  const MutexLock lock(&mutex_);
  call.WriteAndFinish(Message(StatusOf(serving_)), grpc::Status::OK);
}

void HealthService::BeginWatch(std::unique_ptr<Rpc> rpc) {
  const std::optional<bool> known = Knows(rpc.get());
  if (!known) return (new HealthCall(std::move(rpc)))->rpc().Finish(NoRequest());
  (new Watch(this, std::move(rpc), *known))->Begin();
}

std::optional<bool> HealthService::Knows(Rpc* rpc) const {
  HealthCheckRequest request;
  const bool parsed = ParseMessage(rpc->request, &request).ok();
  rpc->request.Clear();
  if (!parsed) return std::nullopt;
  return services_.contains(request.service());
}

}  // namespace tvq
