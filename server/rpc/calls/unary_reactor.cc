#include "server/rpc/calls/unary_reactor.h"

#include <chrono>
#include <utility>

#include "server/rpc/wire/status.h"
#include "server/rpc/wire/wire.h"

namespace tvq {

bool UnaryReactor::Admit() {
  self_ = shared_from_this();
  const absl::Status admitted = scope_.Begin();
  if (!admitted.ok()) End(admitted);
  return admitted.ok();
}

void UnaryReactor::Refuse(const absl::Status& status, bool busy) {
  scope_.Refuse(status);
  if (busy) AddRetryPushback(status, /*fits_idle_server=*/true, rpc_);
  End(status);
}

void UnaryReactor::End(const absl::Status& status) {
  scope_.Worked();
  Finish(scope_.End(status));
}

void UnaryReactor::Answer(const google::protobuf::Message& message) {
  auto bytes = SerializeMessage(message);
  if (!bytes.ok()) return End(bytes.status());
  *out_ = *std::move(bytes);
  const auto length = static_cast<int64_t>(out_->Length());
  reader_.Arm(context_.stall_timeout + std::chrono::seconds(length / kSlowestReader),
              shared_from_this());
  rpc_->AddInitialMetadata("x-request-id", caller().request_id);
  if (length <= kSmallAnswerBytes) scope_.Worked();
  Finish(scope_.End(absl::OkStatus()));
}

void UnaryReactor::OnDone() {
  reader_.Done();
  scope_.Done();
  self_.reset();
}

}  // namespace tvq
