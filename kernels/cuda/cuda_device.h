// An NVIDIA GPU as a device: its memory and one stream of operations.
#ifndef TVQ_KERNELS_CUDA_CUDA_DEVICE_H_
#define TVQ_KERNELS_CUDA_CUDA_DEVICE_H_

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "kernels/cuda/copy_lanes.h"
#include "kernels/cuda/cuda_status.h"
#include "kernels/cuda/gemm.h"
#include "kernels/cuda/make_device.h"
#include "kernels/cuda/ordered_copies.h"
#include "kernels/cuda/platform.h"
#include "kernels/device/device.h"
#include "kernels/host/block_pool.h"
#include "kernels/host/slab.h"

namespace tvq::TVQ_CUDA {

// The most shared memory of a block, including what the kernel declares, that every GPU has.
constexpr int kMostSharedBytes = 99 << 10;

class CudaDevice : public Device {
 public:
  // Takes ownership of the stream, which is not the default one. `gpu` describes the GPU.
  // `overlaps`: whether the GPU, and the code for it, can let kernels begin while the ones before
  // them end; options.serial forbids it.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Create(cudaStream_t stream,
                                                            std::string_view gpu,
                                                            const CudaOptions& options,
                                                            bool overlaps);
  ~CudaDevice() override;

  std::string Describe() const override { return description_; }
  absl::Status Health() const override;
  bool host_memory() const override { return false; }
  absl::StatusOr<Buffer> Allocate(size_t bytes) override;
  absl::StatusOr<Reusable> AllocateReusable(size_t bytes) override;
  absl::Status Reserve(size_t bytes) override;
  std::optional<int64_t> FreeMemory() const override;
  absl::Status Zero(void* device, size_t bytes) override;
  absl::Status CopyToHost(void* host, const void* device, size_t bytes) override;
  absl::Status CopyFromHost(void* device, const void* host, size_t bytes) override;
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override;
  absl::Status Send(void* device, const void* host, size_t bytes) override;
  absl::Status Receive(void* host, const void* device, size_t bytes) override;
  absl::Status Synchronize() override;
  absl::StatusOr<std::unique_ptr<DeviceTime>> Now() override;
  bool records() const override { return true; }
  // Makes a CUDA graph of the stream's work.
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& work) override;

  // The matrix products of chunks of prompts.
  const Gemm& gemm() const { return *gemm_; }

  // Operations run on it one after the other.
  cudaStream_t stream() const { return stream_; }
  // Whether kernels that may overlap do (overlap.cuh).
  bool overlaps() const { return overlaps_; }

  // A buffer with a copy of `values`.
  template <typename T>
  absl::StatusOr<Buffer> Upload(std::span<const T> values) {
    absl::StatusOr<Buffer> buffer = Allocate(values.size_bytes());
    if (!buffer.ok()) return buffer;
    const absl::Status status = CopyFromHost(buffer->data(), values.data(), values.size_bytes());
    return status.ok() ? std::move(buffer) : status;
  }

  // Device memory for one op's intermediates, valid until the next call with the same slot, of any
  // op; what is there at first has no meaning (the stand-in fills it with NaN each time). Grows,
  // never shrinks; growing waits for the stream. Memory that a recording uses is not freed.
  template <typename T>
  absl::StatusOr<T*> Scratch(size_t slot, int64_t count) {
    absl::StatusOr<void*> bytes = ScratchBytes(slot, static_cast<size_t>(count) * sizeof(T));
    if (!bytes.ok()) return bytes.status();
    return static_cast<T*>(*bytes);
  }

  // Counters that are zero whenever no kernel uses them, also for the next kernel (tickets.cuh).
  // They grow as scratch does.
  absl::StatusOr<uint32_t*> Tickets(int64_t count);

  // Permits launches of `kernel` with `bytes` of shared memory beside what it declares, of
  // kMostSharedBytes in all. Never takes a permission back: a recorded launch may need more bytes.
  cudaError_t AllowShared(const void* kernel, int bytes);

 private:
  CudaDevice(cudaStream_t stream, std::string description, bool overlaps);

  // Allocate, without writing anything.
  absl::StatusOr<Buffer> AllocateUnwritten(size_t bytes);
  absl::StatusOr<void*> ScratchBytes(size_t slot, size_t bytes);
  // Makes `memory` half as large again as `bytes` if it is smaller than `bytes`, so that it grows
  // seldom. `zeroed`: new memory is zeroed.
  absl::Status Grow(Buffer& memory, size_t bytes, bool zeroed);

  const cudaStream_t stream_;
  const std::string description_;
  const bool overlaps_;
  CopyLanes lanes_;
  OrderedCopies ordered_;
  std::optional<Gemm> gemm_;
  std::vector<Buffer> scratch_;
  Buffer tickets_;
  bool recorded_ = false;
  std::vector<Buffer> outgrown_;               // scratch and tickets that recordings use
  std::unordered_set<const void*> may_share_;  // kernels, by AllowShared
  // What Reserve took; null before.
  struct Reserved {
    explicit Reserved(Buffer taken) : memory(std::move(taken)), places(memory.bytes()) {}
    const Buffer memory;
    Slab places;
  };
  // Both are shared with the blocks that they handed out. A block comes from the pool where nothing
  // is reserved, or where blocks of other sizes leave no place for it.
  std::shared_ptr<Reserved> reserved_;
  std::shared_ptr<BlockPool> reusable_;
};

inline CudaDevice& AsCuda(Device& device) { return static_cast<CudaDevice&>(device); }

// The table of the backend.
const Backend& CudaBackend();

}  // namespace tvq::TVQ_CUDA

#endif  // TVQ_KERNELS_CUDA_CUDA_DEVICE_H_
