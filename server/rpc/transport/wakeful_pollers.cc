#include "server/rpc/transport/wakeful_pollers.h"

#include <chrono>

namespace tvq {
namespace {

constexpr std::chrono::milliseconds kPeriod{250};

grpc::ByteBuffer EmptyMessage() {
  const grpc::Slice empty;
  return grpc::ByteBuffer(&empty, 1);
}

}  // namespace

// Without credentials a channel is one whose calls fail.
WakefulPollers::WakefulPollers()
    : nowhere_(grpc::CreateCustomChannel("", nullptr, grpc::ChannelArguments())),
      request_(EmptyMessage()) {
  ticker_.emplace(kPeriod, [this] { Call(); });
}

WakefulPollers::~WakefulPollers() {
  ticker_.reset();
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !called_; };
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&idle));
}

void WakefulPollers::Call() {
  {
    absl::MutexLock lock(&mutex_);
    if (called_) return;
    called_ = true;
  }
  context_.emplace();
  nowhere_.UnaryCall(&*context_, "/nowhere", grpc::StubOptions(), &request_, &response_,
                     [this](const grpc::Status&) {
                       absl::MutexLock lock(&mutex_);
                       called_ = false;
                     });
}

}  // namespace tvq
