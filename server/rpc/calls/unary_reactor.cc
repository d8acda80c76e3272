#include "server/rpc/calls/unary_reactor.h"

#include <algorithm>
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

void UnaryReactor::End(const absl::Status& status) {
  scope_.Worked();
  Finish(scope_.End(status));
}

absl::Status UnaryReactor::TakeRoom(int64_t bytes) {
  if (bytes <= std::max(kUncountedBytes, answer_.bytes())) return absl::OkStatus();
  if (answer_.bytes() == 0) answer_ = ByteQuota::Share(answers_, caller().sharer);
  return answer_.Add(bytes - answer_.bytes());
}

void UnaryReactor::Answer(const google::protobuf::Message& message) {
  if (auto room = TakeRoom(static_cast<int64_t>(message.ByteSizeLong())); !room.ok()) {
    return End(room);
  }
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
  answer_ = {};
  scope_.Done();
  self_.reset();
}

}  // namespace tvq
