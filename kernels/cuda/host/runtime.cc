#include "kernels/cuda/host/runtime.h"

#include <sanitizer/asan_interface.h>

#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace tvq::cuda_host {
namespace {

// What cudaMalloc gave. Poisoned unless somebody has access.
class DeviceMemory {
 public:
  static DeviceMemory& Instance() {
    static DeviceMemory memory;
    return memory;
  }

  void* Allocate(size_t bytes) {
    void* data = std::malloc(bytes);
    const std::lock_guard lock(mutex_);
    if (data != nullptr) {
      blocks_[data] = bytes;
      if (users_ == 0) ASAN_POISON_MEMORY_REGION(data, bytes);
    }
    return data;
  }
  void Free(void* data) {
    const std::lock_guard lock(mutex_);
    if (const auto block = blocks_.find(data); block != blocks_.end()) {
      ASAN_UNPOISON_MEMORY_REGION(data, block->second);
      blocks_.erase(block);
    }
    std::free(data);
  }
  void Enter() {
    const std::lock_guard lock(mutex_);
    if (users_++ > 0) return;
    for (const auto& [data, bytes] : blocks_) ASAN_UNPOISON_MEMORY_REGION(data, bytes);
  }
  void Leave() {
    const std::lock_guard lock(mutex_);
    if (--users_ > 0) return;
    for (const auto& [data, bytes] : blocks_) ASAN_POISON_MEMORY_REGION(data, bytes);
  }

 private:
  std::mutex mutex_;
  std::map<void*, size_t> blocks_;
  int users_ = 0;
};

}  // namespace

DeviceMemoryAccess::DeviceMemoryAccess() { DeviceMemory::Instance().Enter(); }
DeviceMemoryAccess::~DeviceMemoryAccess() { DeviceMemory::Instance().Leave(); }

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
  *data = tvq::cuda_host::DeviceMemory::Instance().Allocate(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFree(void* data) {
  tvq::cuda_host::DeviceMemory::Instance().Free(data);
  return cudaSuccess;
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  *data = std::malloc(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
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
  stream->Queue([=] {
    const tvq::cuda_host::DeviceMemoryAccess access;
    std::memcpy(to, from, bytes);
  });
  if (kind == cudaMemcpyDeviceToDevice) stream->RunAll();
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  stream->Queue([=] {
    const tvq::cuda_host::DeviceMemoryAccess access;
    std::memset(data, value, bytes);
  });
  stream->RunAll();
  return cudaSuccess;
}
