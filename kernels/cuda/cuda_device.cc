#include "kernels/cuda/cuda_device.h"

#include "absl/strings/str_cat.h"

namespace tvq::TVQ_CUDA {

absl::Status ToStatus(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return absl::OkStatus();
  const std::string message = absl::StrCat(what, ": ", cudaGetErrorString(error));
  return error == cudaErrorMemoryAllocation ? absl::ResourceExhaustedError(message)
                                            : absl::InternalError(message);
}

const Backend& CudaDevice::backend() const { return CudaBackend(); }

absl::StatusOr<Buffer> CudaDevice::Allocate(size_t bytes) {
  if (bytes == 0) return Buffer();
  void* data = nullptr;
  if (const cudaError_t error = cudaMalloc(&data, bytes); error != cudaSuccess) {
    return ToStatus(error, absl::StrCat("cannot allocate ", bytes, " bytes on the GPU").c_str());
  }
  Buffer buffer(data, bytes, [](void* memory) { cudaFree(memory); });
  absl::Status status = Zero(data, bytes);
  if (status.ok()) status = Synchronize();
  if (!status.ok()) return status;
  return buffer;
}

absl::Status CudaDevice::Zero(void* device, size_t bytes) {
  return ToStatus(cudaMemsetAsync(device, 0, bytes, stream_), "clear memory");
}

absl::Status CudaDevice::CopyToHost(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  absl::Status status = ToStatus(
      cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "copy to the host");
  return status.ok() ? Synchronize() : status;
}

absl::Status CudaDevice::CopyFromHost(void* device, const void* host, size_t bytes) {
  if (bytes == 0) return absl::OkStatus();
  absl::Status status = ToStatus(
      cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "copy to the GPU");
  return status.ok() ? Synchronize() : status;
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
