// The CPU as a device: host memory, a thread pool, an instruction set chosen at run time.
#ifndef TVQ_KERNELS_CPU_CPU_DEVICE_H_
#define TVQ_KERNELS_CPU_CPU_DEVICE_H_

#include <string>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/device.h"

namespace tvq {

class CpuDevice : public Device {
 public:
  // `bf16_dot`: VDPBF16PS may be used. `description` is what Describe returns.
  CpuDevice(const Backend* backend, int threads, bool bf16_dot, std::string description);

  std::string Describe() const override { return description_; }
  const Backend& backend() const override { return *backend_; }
  absl::StatusOr<Buffer> Allocate(size_t bytes) override;
  absl::Status CopyToHost(void* host, const void* device, size_t bytes) override;
  absl::Status CopyFromHost(void* device, const void* host, size_t bytes) override;
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override;
  absl::Status Synchronize() override { return absl::OkStatus(); }

  ThreadPool& pool() { return pool_; }
  bool bf16_dot() const { return bf16_dot_; }

  // Memory for one op's intermediates, valid until the next call with the same slot. Grows, never
  // shrinks.
  template <typename T>
  T* Scratch(size_t slot, int64_t count) {
    return static_cast<T*>(ScratchBytes(slot, static_cast<size_t>(count) * sizeof(T)));
  }

 private:
  void* ScratchBytes(size_t slot, size_t bytes);

  const Backend* backend_;
  ThreadPool pool_;
  bool bf16_dot_;
  std::string description_;
  std::vector<Buffer> scratch_;
};

inline CpuDevice& AsCpu(Device& device) { return static_cast<CpuDevice&>(device); }

// The tables. `CpuBackend` dispatches to the best instruction set that Highway may use at run time.
const Backend& CpuBackend();
const Backend& ReferenceBackend();

}  // namespace tvq

#endif  // TVQ_KERNELS_CPU_CPU_DEVICE_H_
