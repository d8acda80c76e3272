#include "kernels/cuda/host/runtime.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>

namespace tvq::cuda_host {

// Work that waits, in its order. Kernels, and what is on the GPU alone, run when they are queued,
// behind all that waits. Any thread.
class Stream {
 public:
  // The number of pieces of work queued so far.
  int64_t Queue(std::function<void()> work) {
    const std::lock_guard lock(mutex_);
    if (work) waiting_.push_back(std::move(work));
    return done_ + static_cast<int64_t>(waiting_.size());
  }
  // Until `count` pieces are done.
  void Run(int64_t count) {
    const std::lock_guard lock(mutex_);
    while (done_ < count) {
      waiting_.front()();
      waiting_.pop_front();
      ++done_;
    }
  }
  void RunAll() { Run(Queue({})); }

 private:
  std::mutex mutex_;
  std::deque<std::function<void()>> waiting_;
  int64_t done_ = 0;
};

// A place in a stream.
struct Event {
  Stream* stream = nullptr;
  int64_t count = 0;
};

}  // namespace tvq::cuda_host

using tvq::cuda_host::Event;
using tvq::cuda_host::Stream;

const char* cudaGetErrorString(cudaError_t) { return "out of memory"; }

cudaError_t cudaMalloc(void** data, size_t bytes) {
  *data = std::malloc(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) { return cudaMalloc(data, bytes); }
cudaError_t cudaFreeHost(void* data) { return cudaFree(data); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *free = *total = 0;
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new Stream;
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  stream->RunAll();
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  stream->Queue([event = *event] { event.stream->Run(event.count); });
  return cudaSuccess;
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new Event;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  *event = {stream, stream->Queue({})};
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (event->stream != nullptr) event->stream->Run(event->count);
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  stream->Queue([=] { std::memcpy(to, from, bytes); });
  if (kind == cudaMemcpyDeviceToDevice) stream->RunAll();
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  stream->Queue([=] { std::memset(data, value, bytes); });
  stream->RunAll();
  return cudaSuccess;
}
