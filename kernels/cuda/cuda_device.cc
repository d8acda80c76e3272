#include "kernels/cuda/cuda_device.h"

#include "absl/strings/str_cat.h"

namespace tvq::TVQ_CUDA {

namespace {

absl::Status NoMemory(size_t bytes, cudaError_t error) {
  size_t free = 0, total = 0;
  cudaMemGetInfo(&free, &total);
  return ToStatus(error, absl::StrCat("cannot allocate ", bytes, " bytes on the GPU, where ", free,
                                      " of ", total, " are free")
                             .c_str());
}

// A block that waits costs nothing: whoever gets it next writes it behind what still reads it.
BlockSource DeviceMemory() {
  return {.map = [](size_t size) -> void* {
            void* data = nullptr;
            return cudaMalloc(&data, size) == cudaSuccess ? data : nullptr;
          },
          .unmap = [](void* data, size_t) { cudaFree(data); },
          .rest = {},
          .wake = {}};
}

}  // namespace

CudaDevice::CudaDevice(cudaStream_t stream, std::string description)
    : stream_(stream),
      description_(std::move(description)),
      lanes_(stream),
      reusable_(std::make_shared<BlockPool>(DeviceMemory())) {}

CudaDevice::~CudaDevice() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

const Backend& CudaDevice::backend() const { return CudaBackend(); }

absl::StatusOr<Buffer> CudaDevice::Allocate(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    return NoMemory(bytes, error);
  }
  Buffer buffer(data, bytes, [](void* memory) { cudaFree(memory); });
  absl::Status status = Zero(data, bytes);
  if (status.ok()) status = Synchronize();
  if (!status.ok()) return status;
  return buffer;
}

absl::StatusOr<Device::Reusable> CudaDevice::AllocateReusable(size_t bytes) {
  if (bytes == 0) return Reusable();
  void* data = reusable_->Take(bytes).data;
  if (data == nullptr) return NoMemory(bytes, cudaErrorMemoryAllocation);
  const auto give = [pool = reusable_, bytes](void* block) { pool->Give(block, bytes); };
  return Reusable{Buffer(data, bytes, give), false};
}

absl::Status CudaDevice::Zero(void* device, size_t bytes) {
  return ToStatus(cudaMemsetAsync(device, 0, bytes, stream_), "clear memory");
}

absl::Status CudaDevice::CopyToHost(void* host, const void* device, size_t bytes) {
  return bytes == 0 ? absl::OkStatus() : lanes_.ToHost(host, device, bytes);
}

absl::Status CudaDevice::CopyFromHost(void* device, const void* host, size_t bytes) {
  return bytes == 0 ? absl::OkStatus() : lanes_.FromHost(device, host, bytes);
}

absl::Status CudaDevice::CopyWithin(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  return ToStatus(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
                  "copy on the GPU");
}

absl::Status CudaDevice::Synchronize() {
  return ToStatus(cudaStreamSynchronize(stream_), "the GPU's work");
}

absl::StatusOr<void*> CudaDevice::ScratchBytes(size_t slot, size_t bytes) {
  if (slot >= scratch_.size()) scratch_.resize(slot + 1);
  if (scratch_[slot].bytes() < bytes) {
    if (absl::Status status = Synchronize(); !status.ok()) return status;
    scratch_[slot] = Buffer();
    absl::StatusOr<Buffer> grown = Allocate(bytes + bytes / 2);
    if (!grown.ok()) return grown.status();
    scratch_[slot] = *std::move(grown);
  }
  return scratch_[slot].data();
}

}  // namespace tvq::TVQ_CUDA
