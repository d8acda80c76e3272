#include "tests/kernels/cuda/stand_in/stream.h"

#include <utility>

#include "tests/kernels/cuda/stand_in/breakdown.h"

namespace tvq::cuda_stand_in {
namespace {

// Of the thread that captures: what others do elsewhere does not spoil it (thread-local mode).
thread_local Stream* t_capturing = nullptr;

}  // namespace

cudaError_t ForbidInCapture() {
  if (t_capturing == nullptr) return cudaSuccess;
  t_capturing->Spoil();
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t Stream::Do(Work work) {
  const std::lock_guard lock(mutex_);
  if (capture_ != nullptr) {
    if (capturing_ != std::this_thread::get_id()) return ForbidWhileCaptured();
    if (spoilt_) return cudaErrorStreamCaptureInvalidated;
    capture_->work.push_back(std::move(work));
    return cudaSuccess;
  }
  waiting_.push_back(std::move(work));
  RunLocked(Last());
  return ErrorOfCall();
}

void Stream::Spoil() {
  const std::lock_guard lock(mutex_);
  spoilt_ = true;
}

cudaError_t Stream::ForbidWhileCaptured() {
  if (capture_ == nullptr) return cudaSuccess;
  spoilt_ = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t Stream::Queue(Work work) {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = ForbidWhileCaptured(); error != cudaSuccess) return error;
  waiting_.push_back(std::move(work));
  return ErrorOfCall();
}

cudaError_t Stream::Record(Event* event) {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = ForbidWhileCaptured(); error != cudaSuccess) return error;
  *event = {this, Last()};
  return ErrorOfCall();
}

void Stream::Run(int64_t count) {
  const std::lock_guard lock(mutex_);
  RunLocked(count);
}

void Stream::RunLocked(int64_t count) {
  while (done_ < count) {
    waiting_.front()();
    waiting_.pop_front();
    ++done_;
  }
}

cudaError_t Stream::Synchronize() {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = ForbidWhileCaptured(); error != cudaSuccess) return error;
  RunLocked(Last());
  return ErrorOfWait();
}

cudaError_t Stream::Query() {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = ForbidWhileCaptured(); error != cudaSuccess) return error;
  return ErrorOfCall();
}

cudaError_t Stream::BeginCapture() {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
  if (const cudaError_t error = ForbidWhileCaptured(); error != cudaSuccess) return error;
  capture_ = std::make_unique<Graph>();
  capturing_ = std::this_thread::get_id();
  spoilt_ = false;
  t_capturing = this;
  return cudaSuccess;
}

cudaError_t Stream::EndCapture(Graph** graph) {
  const std::lock_guard lock(mutex_);
  t_capturing = nullptr;
  const std::unique_ptr<Graph> captured = std::move(capture_);
  *graph = spoilt_ ? nullptr : new Graph(std::move(*captured));
  return spoilt_ ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

}  // namespace tvq::cuda_stand_in
