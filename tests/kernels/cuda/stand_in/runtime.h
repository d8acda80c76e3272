// The functions of the CUDA runtime that our sources call, where kernels run on the CPU: one
// memory, and streams on which kernels run at once and copies as late as they may, so that a copy
// nobody waited for shows. A stream that is captured writes its work down. What a GPU forbids then
// (to allocate, to wait, to ask whether work is done) is an error and spoils the capture, as there;
// so are, which a GPU would write down, copies from and to the host and work of other threads on
// the captured stream. A copy within the GPU and a fill want its memory, whoever asks for them. A
// launch, that of a graph included, wants leave for much shared memory at the time when it runs.
#ifndef TVQ_TESTS_KERNELS_CUDA_STAND_IN_RUNTIME_H_
#define TVQ_TESTS_KERNELS_CUDA_STAND_IN_RUNTIME_H_

#include <cstddef>
#include <cstdint>
#include <functional>

namespace tvq::cuda_stand_in {

class Stream;
struct Event;
struct Graph;

// While one lives, what cudaMalloc gave may be touched: by a kernel, by a copy. Any thread.
class DeviceMemoryAccess {
 public:
  DeviceMemoryAccess();
  ~DeviceMemoryAccess();
  DeviceMemoryAccess(const DeviceMemoryAccess&) = delete;
  DeviceMemoryAccess& operator=(const DeviceMemoryAccess&) = delete;
};

// What was asked of the runtime since the process began. Any thread.
struct RuntimeCounts {
  int64_t allocations = 0;       // of GPU memory and of pinned memory
  int64_t launches = 0;          // of kernels, those inside graphs not counted
  int64_t graphs = 0;            // launched
  int64_t synchronisations = 0;  // of whole streams
};
RuntimeCounts CountsOfRuntime();

// How much memory the GPU has, 16 GiB if nobody says.
void SetMemoryOfGpu(size_t bytes);

}  // namespace tvq::cuda_stand_in

// The names are CUDA's: NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming)
struct dim3;
using cudaStream_t = tvq::cuda_stand_in::Stream*;
using cudaEvent_t = tvq::cuda_stand_in::Event*;
using cudaGraph_t = tvq::cuda_stand_in::Graph*;
using cudaGraphExec_t = tvq::cuda_stand_in::Graph*;
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorInvalidDeviceFunction = 98,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
};
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice };
enum cudaStreamCaptureMode { cudaStreamCaptureModeThreadLocal };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize };
struct cudaFuncAttributes {
  size_t sharedSizeBytes = 0;  // as if none: what a kernel declares shows when it runs
  int maxDynamicSharedSizeBytes = 0;
};
constexpr unsigned cudaStreamNonBlocking = 1, cudaEventDisableTiming = 2;

const char* cudaGetErrorString(cudaError_t error);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function);
cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value);

cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* data, int value, size_t bytes, cudaStream_t stream);

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* run, cudaGraph_t graph, uint64_t flags);
cudaError_t cudaGraphUpload(cudaGraphExec_t run, cudaStream_t stream);
cudaError_t cudaGraphLaunch(cudaGraphExec_t run, cudaStream_t stream);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t run);
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace tvq::cuda_stand_in {

// In place of <<<>>>: RunGrid on a stream. `thread` is kept by a stream that is captured.
// `overlaps`: with the attribute that lets a kernel begin while the one before it ends. `function`:
// whose attributes say how much shared memory it may have; null: one that nobody gave leave.
cudaError_t LaunchGrid(const char* kernel, const dim3& grid, const dim3& block, size_t shared_bytes,
                       std::function<void()> thread, cudaStream_t stream, bool overlaps = false,
                       const void* function = nullptr);

}  // namespace tvq::cuda_stand_in

#endif  // TVQ_TESTS_KERNELS_CUDA_STAND_IN_RUNTIME_H_
