#include "server/rpc/calls/call.h"

#include <algorithm>

#include "absl/time/time.h"
#include "server/rpc/wire/status.h"
#include "server/rpc/wire/wire.h"

namespace tvq {
namespace {

constexpr size_t kMaxLoggedId = 128;

}  // namespace

Call::Call(const CallContext& context, const MethodInfo& method, std::unique_ptr<Rpc> rpc,
           ByteQuota* room)
    : context_(context),
      method_(method),
      rpc_(std::move(rpc)),
      quota_(room == nullptr ? context.answers : room),
      reader_(&rpc_->context) {}

bool Call::Admit() {
  self_ = shared_from_this();
  rpc_->Begin(this);
  came_ = context_.open_calls->Begin();
  const absl::Status entered = Enter();
  if (!entered.ok()) End(entered);
  return entered.ok();
}

absl::Status Call::Enter() {
  auto status = context_.gate->Admit(method_, &rpc_->context, &caller_);
  if (!status.ok()) return status;
  // Those of operators are needed under load.
  if (method_.permission == Permission::kAdmin) return absl::OkStatus();
  place_ = ByteQuota::Share(context_.calls, caller_.sharer);
  return place_.Add(1);
}

grpc::ByteBuffer Call::TakeRequest() {
  grpc::ByteBuffer request;
  request.Swap(&rpc_->request);
  return request;
}

void Call::OnWorkers(size_t bytes, std::function<void()> task) {
  const auto status = context_.workers->TrySchedule(caller_.sharer, bytes, std::move(task));
  if (!status.ok()) End(status);
}

void Call::OnSessionTasks(size_t bytes, std::function<void()> task) {
  const auto status = context_.session_tasks->TrySchedule(caller_.sharer, kSessionTaskBytes + bytes,
                                                          std::move(task));
  if (!status.ok()) End(status);
}

absl::Status Call::TakeRoom(int64_t bytes) {
  if (bytes <= std::max(kUncountedBytes, room_.bytes())) return absl::OkStatus();
  if (room_.bytes() == 0) room_ = ByteQuota::Share(quota_, caller_.sharer);
  return room_.Add(bytes - room_.bytes());
}

void Call::End(const absl::Status& status) {
  LetGo();
  if (!status.ok()) Worked();
  rpc_->Finish(Finished(status));
}

void Call::Answer(const google::protobuf::Message& message) {
  const auto room = TakeRoom(static_cast<int64_t>(message.ByteSizeLong()));
  Answer(room.ok() ? SerializeMessage(message) : room);
}

void Call::Answer(const absl::StatusOr<grpc::ByteBuffer>& message) {
  if (!message.ok()) return End(message.status());
  const auto length = static_cast<int64_t>(message->Length());
  if (auto room = TakeRoom(length); !room.ok()) return End(room);
  LetGo();
  reader_.Arm(context_.stall_timeout + std::chrono::seconds(length / kSlowestReader), self_);
  SetHeaders();
  if (length <= kSmallAnswerBytes) Worked();
  rpc_->WriteAndFinish(*message, Finished(absl::OkStatus()));
}

grpc::Status Call::Finished(const absl::Status& status) {
  context_.recorder->Finished(
      {method_, caller_, status, absl::FromChrono(std::chrono::steady_clock::now() - start_)});
  if (!status.ok()) AddRetryPushback(status, &rpc_->context);
  return ToGrpc(status);
}

void Call::SetHeaders() { rpc_->context.AddInitialMetadata("x-request-id", caller_.request_id); }

void Call::Worked() {
  if (!worked_.exchange(true)) context_.open_calls->Worked(came_);
}

void Call::OfSession(const std::string& id) { caller_.session_id = id.substr(0, kMaxLoggedId); }

void Call::OnDone() {
  reader_.Done();
  Worked();
  room_ = {};
  place_ = {};
  context_.open_calls->End();
  self_.reset();
}

}  // namespace tvq
