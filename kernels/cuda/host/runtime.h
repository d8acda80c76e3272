// The functions of the CUDA runtime that our sources call, where kernels run on the CPU: one
// memory, and streams on which kernels run at once and copies as late as they may, so that a copy
// nobody waited for shows.
#ifndef TVQ_KERNELS_CUDA_HOST_RUNTIME_H_
#define TVQ_KERNELS_CUDA_HOST_RUNTIME_H_

#include <cstddef>

namespace tvq::cuda_host {

class Stream;
struct Event;

// While one lives, what cudaMalloc gave may be touched: by a kernel, by a copy. Any thread.
class DeviceMemoryAccess {
 public:
  DeviceMemoryAccess();
  ~DeviceMemoryAccess();
  DeviceMemoryAccess(const DeviceMemoryAccess&) = delete;
  DeviceMemoryAccess& operator=(const DeviceMemoryAccess&) = delete;
};

}  // namespace tvq::cuda_host

// The names are CUDA's: NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
using cudaStream_t = tvq::cuda_host::Stream*;
using cudaEvent_t = tvq::cuda_host::Event*;
enum cudaError_t { cudaSuccess = 0, cudaErrorMemoryAllocation = 2 };
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

#endif  // TVQ_KERNELS_CUDA_HOST_RUNTIME_H_
