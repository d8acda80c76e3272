#include "server/rpc/services/model_service.h"

#include <chrono>
#include <utility>

#include "absl/time/clock.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/to_proto.h"

namespace tvq {
namespace {

constexpr MethodInfo kListModels{"ModelService/ListModels", Permission::kAny};
constexpr MethodInfo kGetModel{"ModelService/GetModel", Permission::kAny};
constexpr MethodInfo kGetServerInfo{"ModelService/GetServerInfo", Permission::kAny};

void ToProto(v1::SessionTier tier, const TierStats& stats, v1::TierUse* message) {
  message->set_tier(tier);
  message->set_sessions(stats.sessions);
  message->set_state_bytes(stats.state_bytes);
  message->set_budget_bytes(stats.budget_bytes);
}

}  // namespace

ModelService::ModelService(const CallContext& context, ServerDescription description)
    : TvqService(context),
      description_(std::move(description)),
      start_(absl::Now()),
      sampler_(std::chrono::duration_cast<std::chrono::milliseconds>(ServerHistory::kFirstPeriod),
               [this] { Sample(); }) {
  Sample();
  AddUnary<v1::ListModelsRequest, v1::ListModelsResponse>(
      {.info = kListModels, .handle = [this](auto&, auto&, auto* r) { return ListModels(r); }});
  AddUnary<v1::GetModelRequest, v1::GetModelResponse>(
      {.info = kGetModel, .handle = [this](auto&, auto& q, auto* r) { return GetModel(q, r); }});
  AddUnary<v1::GetServerInfoRequest, v1::GetServerInfoResponse>(
      {.info = kGetServerInfo,
       .handle = [this](auto&, auto& q, auto* r) { return GetServerInfo(q, r); }});
}

absl::Status ModelService::Describe(const ServedModel& model, int64_t quoted_tokens,
                                    v1::Model* message) const {
  const absl::StatusOr<ModelCapacity> capacity =
      context().engine->Capacity(model.name, quoted_tokens);
  if (!capacity.ok()) return capacity.status();
  ToProto(model, *capacity, context().limits, message);
  return absl::OkStatus();
}

template <typename Message>
std::chrono::nanoseconds ModelService::Tell(Message* message) const {
  const std::chrono::nanoseconds uptime = std::chrono::steady_clock::now() - began_;
  message->mutable_uptime()->set_seconds(uptime.count() / 1'000'000'000);
  message->mutable_uptime()->set_nanos(static_cast<int32_t>(uptime.count() % 1'000'000'000));
  const EngineStats stats = context().engine->stats();
  message->set_requests_running(stats.requests_running);
  message->set_requests_waiting(stats.requests_waiting);
  message->set_prefill_tokens_computed(stats.prefill_tokens_computed);
  message->set_prefill_tokens_reused(stats.prefill_tokens_reused);
  message->set_generation_tokens(stats.generation_tokens);
  if (context().sessions == nullptr) return uptime;
  const SessionStats sessions = context().sessions->stats();
  ToProto(v1::SESSION_TIER_DEVICE, sessions.device, message->add_tiers());
  ToProto(v1::SESSION_TIER_HOST, sessions.host, message->add_tiers());
  ToProto(v1::SESSION_TIER_DURABLE, sessions.durable, message->add_tiers());
  return uptime;
}

void ModelService::Sample() {
  const MutexLock lock(&mutex_);
  if (!history_.IsDue(std::chrono::steady_clock::now() - began_)) return;
  v1::ServerSample sample;
  const std::chrono::nanoseconds uptime = Tell(&sample);
  history_.Add(uptime, std::move(sample));
}

void ModelService::Describe(v1::GetServerInfoResponse* message) const {
  message->set_version(description_.version);
  message->set_build(description_.build);
  message->set_device(description_.device);
  const int64_t start = absl::ToUnixNanos(start_);
  message->mutable_start_time()->set_seconds(start / 1'000'000'000);
  message->mutable_start_time()->set_nanos(static_cast<int32_t>(start % 1'000'000'000));
  message->set_draining(*context().draining);
  message->set_left_state_bytes(context().engine->stats().state_bytes_left);
  Tell(message);
}

absl::Status ModelService::ListModels(v1::ListModelsResponse* response) const {
  for (const ServedModel& model : context().engine->models()) {
    auto status = Describe(model, /*quoted_tokens=*/0, response->add_models());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ModelService::GetModel(const v1::GetModelRequest& request,
                                    v1::GetModelResponse* response) const {
  const auto model = FindModel(context().engine->models(), request.name());
  if (!model.ok()) return model.status();
  return Describe(**model, request.quoted_tokens(), response->mutable_model());
}

absl::Status ModelService::GetServerInfo(const v1::GetServerInfoRequest& request,
                                         v1::GetServerInfoResponse* response) {
  Describe(response);
  if (!request.include_history()) return absl::OkStatus();
  const MutexLock lock(&mutex_);
  for (const v1::ServerSample& sample : history_.samples()) *response->add_history() = sample;
  return absl::OkStatus();
}

}  // namespace tvq
