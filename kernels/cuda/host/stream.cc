#include "kernels/cuda/host/stream.h"

#include <utility>

#include "kernels/cuda/host/breakdown.h"

namespace tvq::cuda_host {
namespace {

// Of the thread that captures: nobody else's calls spoil the capture (thread-local mode).
struct Capturing {
  const Stream* stream = nullptr;
  bool spoilt = false;
};
thread_local Capturing t_capturing;

}  // namespace

cudaError_t ForbidInCapture() {
  if (t_capturing.stream == nullptr) return cudaSuccess;
  t_capturing.spoilt = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t Stream::Do(Work work) {
  const std::lock_guard lock(mutex_);
  if (capture_ != nullptr) {
    if (t_capturing.spoilt) return cudaErrorStreamCaptureInvalidated;
    capture_->work.push_back(std::move(work));
    return cudaSuccess;
  }
  waiting_.push_back(std::move(work));
  RunLocked(Last());
  return ErrorOfCall();
}

cudaError_t Stream::Queue(Work work) {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(work));
  return ErrorOfCall();
}

cudaError_t Stream::Record(Event* event) {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
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
  RunLocked(Last());
  return ErrorOfWait();
}

cudaError_t Stream::BeginCapture() {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  const std::lock_guard lock(mutex_);
  RunLocked(Last());
  capture_ = std::make_unique<Graph>();
  t_capturing = {this, false};
  return cudaSuccess;
}

cudaError_t Stream::EndCapture(Graph** graph) {
  const std::lock_guard lock(mutex_);
  const bool spoilt = std::exchange(t_capturing, {}).spoilt;
  const std::unique_ptr<Graph> captured = std::move(capture_);
  *graph = spoilt ? nullptr : new Graph(std::move(*captured));
  return spoilt ? cudaErrorStreamCaptureInvalidated : cudaSuccess;
}

}  // namespace tvq::cuda_host
