#include "tests/kernels/cuda/stand_in/runtime.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "tests/kernels/cuda/stand_in/breakdown.h"
#include "tests/kernels/cuda/stand_in/cuda_runtime.h"
#include "tests/kernels/cuda/stand_in/device_memory.h"
#include "tests/kernels/cuda/stand_in/stream.h"

namespace tvq::cuda_stand_in {
namespace {

std::atomic<int64_t> g_allocations{0}, g_launches{0}, g_graphs{0}, g_synchronisations{0};

cudaError_t Allocate(void** data, size_t bytes, void* (*allocate)(size_t)) {
  if (const cudaError_t error = ForbidInCapture(); error != cudaSuccess) return error;
  if (const cudaError_t error = ErrorOfCall(); error != cudaSuccess) return error;
  ++g_allocations;
  *data = allocate(bytes);
  return *data == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

// Bytes that functions may have beside what they declare: 48 KiB, or what somebody gave leave for.
class SharedLeave {
 public:
  static SharedLeave& Instance() {
    static SharedLeave leave;
    return leave;
  }
  int Of(const void* function) {
    const std::lock_guard lock(mutex_);
    const auto given = given_.find(function);
    return given == given_.end() ? 48 << 10 : given->second;
  }
  void Give(const void* function, int bytes) {
    const std::lock_guard lock(mutex_);
    given_[function] = bytes;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<const void*, int> given_;
};

bool MayHave(const void* function, size_t shared_bytes) {
  return shared_bytes <= static_cast<size_t>(SharedLeave::Instance().Of(function));
}

}  // namespace

RuntimeCounts CountsOfRuntime() {
  return {g_allocations, g_launches, g_graphs, g_synchronisations};
}

cudaError_t LaunchGrid(const char* kernel, const dim3& grid, const dim3& block, size_t shared_bytes,
                       std::function<void()> thread, cudaStream_t stream, bool overlaps,
                       const void* function) {
  if (!MayHave(function, shared_bytes)) return cudaErrorInvalidValue;
  ++g_launches;
  return stream->Do([=, thread = std::move(thread)] {
    if (!BeginOperation()) return;
    if (!MayHave(function, shared_bytes)) Fail(kernel, "more shared memory than it may have now");
    RunGrid(kernel, grid, block, shared_bytes, thread, overlaps);
  });
}

}  // namespace tvq::cuda_stand_in

using tvq::cuda_stand_in::Event;
using tvq::cuda_stand_in::Graph;
using tvq::cuda_stand_in::Stream;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorInsufficientDriver:
      return "CUDA driver version is insufficient for CUDA runtime version";
    case cudaErrorInvalidDeviceFunction:
      return "invalid device function";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorNoKernelImageForDevice:
      return "no kernel image is available for execution on the device";
    case cudaErrorUnsupportedPtxVersion:
      return "the provided PTX was compiled with an unsupported toolchain.";
    case cudaErrorNotReady:
      return "device not ready";
    case cudaErrorInvalidValue:
      return "invalid argument";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    case cudaErrorStreamCaptureUnsupported:
      return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated:
      return "operation failed due to a previous error during capture";
  }
  return "unrecognized error code";
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  *attributes = {.maxDynamicSharedSizeBytes =
                     tvq::cuda_stand_in::SharedLeave::Instance().Of(function)};
  return cudaSuccess;
}
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
  if (value < 0 || value > 99 << 10) return cudaErrorInvalidValue;
  tvq::cuda_stand_in::SharedLeave::Instance().Give(function, value);
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** data, size_t bytes) {
  return tvq::cuda_stand_in::Allocate(data, bytes, tvq::cuda_stand_in::AllocateDeviceMemory);
}
cudaError_t cudaFree(void* data) {
  tvq::cuda_stand_in::FreeDeviceMemory(data);
  return tvq::cuda_stand_in::ForbidInCapture();
}
cudaError_t cudaMallocHost(void** data, size_t bytes) {
  return tvq::cuda_stand_in::Allocate(data, bytes, std::malloc);
}
cudaError_t cudaFreeHost(void* data) {
  std::free(data);
  return cudaSuccess;
}
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const tvq::cuda_stand_in::MemoryOfGpu memory = tvq::cuda_stand_in::MemoryInfo();
  *free = memory.free;
  *total = memory.total;
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
  ++tvq::cuda_stand_in::g_synchronisations;
  return stream->Synchronize();
}
cudaError_t cudaStreamQuery(cudaStream_t stream) { return stream->Query(); }
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return stream->Queue([event = *event] { event.stream->Run(event.count); });
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
  return stream->Record(event);
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const cudaError_t error = tvq::cuda_stand_in::ForbidInCapture();
  if (error != cudaSuccess) return error;
  if (event->stream != nullptr) event->stream->Run(event->count);
  return tvq::cuda_stand_in::ErrorOfWait();
}

// Times here mean nothing; that there is one does.
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = static_cast<float>(to->count - from->count + 1);
  return tvq::cuda_stand_in::ErrorOfCall();
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  const bool to_gpu = kind != cudaMemcpyDeviceToHost, from_gpu = kind != cudaMemcpyHostToDevice;
  if ((to_gpu && !tvq::cuda_stand_in::IsDeviceMemory(to, bytes)) ||
      (from_gpu && !tvq::cuda_stand_in::IsDeviceMemory(from, bytes))) {
    return cudaErrorInvalidValue;
  }
  const auto copy = [=] {
    if (!tvq::cuda_stand_in::BeginOperation()) return;
    const tvq::cuda_stand_in::DeviceMemoryAccess access;
    std::memcpy(to, from, bytes);
  };
  return kind == cudaMemcpyDeviceToDevice ? stream->Do(copy) : stream->Queue(copy);
}
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream) {
  if (!tvq::cuda_stand_in::IsDeviceMemory(data, bytes)) return cudaErrorInvalidValue;
  return stream->Do([=] {
    if (!tvq::cuda_stand_in::BeginOperation()) return;
    const tvq::cuda_stand_in::DeviceMemoryAccess access;
    std::memset(data, value, bytes);
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return stream->BeginCapture();
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return stream->EndCapture(graph);
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* run, cudaGraph_t graph, uint64_t) {
  *run = new Graph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphUpload(cudaGraphExec_t, cudaStream_t) {
  return tvq::cuda_stand_in::ForbidInCapture();
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t stream) {
  ++tvq::cuda_stand_in::g_graphs;
  return stream->Do([run] {
    // Once, for it takes as long as a small kernel.
    const tvq::cuda_stand_in::DeviceMemoryAccess access;
    for (const auto& work : run->work) work();
  });
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t run) {
  delete run;
  return cudaSuccess;
}
