// The CPU as a device: host memory, a thread pool, an instruction set chosen at run time.
#ifndef TVQ_KERNELS_CPU_CPU_DEVICE_H_
#define TVQ_KERNELS_CPU_CPU_DEVICE_H_

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/cpu/huge_pages.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/device/device.h"
#include "kernels/host/block_pool.h"

namespace tvq {

struct AmxTiles;

// Instructions beyond Highway's targets that may be used.
struct DotInstructions {
  bool bf16 = false;              // VDPBF16PS
  bool int8 = false;              // VPDPBUSD of 512 bits
  bool int8_256 = false;          // VPDPBUSD of 256 bits, as AVX-VNNI has it
  const AmxTiles* amx = nullptr;  // kernels/cpu/linear/tile_amx.h; null: none
};

class CpuDevice : public Device {
 public:
  // `description` is what Describe returns.
  CpuDevice(const Backend* backend, int threads, DotInstructions dot, std::string description);

  std::string Describe() const override { return description_; }
  bool host_memory() const override { return true; }
  absl::StatusOr<Buffer> Allocate(size_t bytes) override;
  absl::StatusOr<Reusable> AllocateReusable(size_t bytes) override;
  absl::Status Zero(void* device, size_t bytes) override;
  absl::Status CopyToHost(void* host, const void* device, size_t bytes) override;
  absl::Status CopyFromHost(void* device, const void* host, size_t bytes) override;
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }
  void RunOnHost(int64_t n, const std::function<void(int64_t)>& task) override {
    pool_.ParallelFor(n, task);
  }

  ThreadPool& pool() { return pool_; }
  const DotInstructions& dot() const { return dot_; }

  // Memory for one op's intermediates, valid until the next call with the same slot; not zeroed, 64
  // byte aligned. Grows, never shrinks. Ops do not call each other, so every op counts its slots
  // from 0. Throws std::bad_alloc, as a growing vector would.
  template <typename T>
  T* Scratch(size_t slot, int64_t count) {
    return static_cast<T*>(ScratchBytes(slot, static_cast<size_t>(count) * sizeof(T)));
  }

 private:
  void* ScratchBytes(size_t slot, size_t bytes);

  SmallBlocks small_;
  ThreadPool pool_;
  DotInstructions dot_;
  std::string description_;
  std::vector<Buffer> scratch_;
  // Shared with the blocks that it handed out.
  std::shared_ptr<BlockPool> reusable_ = std::make_shared<BlockPool>(HugePageSource());
};

inline CpuDevice& AsCpu(Device& device) { return static_cast<CpuDevice&>(device); }

// The instruction sets that this build and this processor offer, the best one last: names that
// MakeDevice takes as `isa`.
std::vector<std::string> AvailableIsas();

// What MakeDevice does for "cpu" and "reference". Highway keeps the chosen instruction set for the
// whole process: the latest device made decides for all of them, so devices of different `isa` must
// not be used alternately.
absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(int threads, std::string_view isa);
std::unique_ptr<Device> MakeReferenceDevice();

// The tables. `CpuBackend` dispatches to the best instruction set that Highway may use at run time.
const Backend& CpuBackend();
const Backend& ReferenceBackend();

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_CPU_DEVICE_H_
