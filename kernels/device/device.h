// A device: its memory, its threads or streams, and the table of functions that compute on it.
#ifndef TVQ_KERNELS_DEVICE_DEVICE_H_
#define TVQ_KERNELS_DEVICE_DEVICE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/device/memory.h"

namespace tvq {

struct Backend;

// Operations that were written down once (Device::Record) and are carried out together. Ends before
// its device.
class Recording {
 public:
  virtual ~Recording() = default;
  // An operation.
  virtual absl::Status Run() = 0;
};

// A moment in the order of a device's operations. Ends before its device.
class DeviceTime {
 public:
  virtual ~DeviceTime() = default;
  // How long the device took since `earlier`, one of its own. Waits until it has come to this one.
  virtual absl::StatusOr<double> SecondsSince(const DeviceTime& earlier) const = 0;
};

// Allocate, freeing what it gave, and what follows up to the copies may be called from any thread,
// as long as the memory that they touch is not written and nothing is recorded; operations from one
// thread at a time (the engine's loop). Operations are complete, for the host, after Synchronize.
class Device {
 public:
  virtual ~Device() = default;

  // For people: backend, instruction set, threads; for example "cpu (avx512-bf16, 2 threads)". Of a
  // GPU also what options change, and "overlapping" where a kernel may begin before the one ahead
  // of it has ended.
  virtual std::string Describe() const = 0;
  // The functions that ops call.
  const Backend& backend() const { return *backend_; }

  // OK, or UNAVAILABLE, naming the device, when it has failed for good: nothing that it holds can
  // be read, nothing computed any more. Ask after any error whether it is that. Any thread,
  // but not while one records.
  virtual absl::Status Health() const { return absl::OkStatus(); }

  // Whether the host can read device memory: then ops check the indices in their arguments, too.
  virtual bool host_memory() const = 0;

  // RESOURCE_EXHAUSTED, naming the size, when there is not enough memory. The memory is zeroed.
  virtual absl::StatusOr<Buffer> Allocate(size_t bytes) = 0;
  // For memory that comes and goes in few sizes, as the states of sessions do: a device may keep
  // what is freed and hand it out again as it was left, which spares finding and zeroing fresh
  // memory. Unless it is zeroed, the caller must zero it or write all of it before it is read.
  struct Reusable {
    Buffer memory;
    bool zeroed = true;
  };
  virtual absl::StatusOr<Reusable> AllocateReusable(size_t bytes);
  // Takes `bytes` at once, in which AllocateReusable finds its memory from then on; nothing on a
  // device that allocates at no cost. Once. RESOURCE_EXHAUSTED, naming the sizes.
  virtual absl::Status Reserve(size_t bytes) {
    static_cast<void>(bytes);
    return absl::OkStatus();
  }
  // Free bytes of memory that is the device's own; nothing where it computes in the host's.
  virtual std::optional<int64_t> FreeMemory() const { return std::nullopt; }
  virtual absl::Status Zero(void* device, size_t bytes) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, size_t bytes) = 0;
  virtual absl::Status CopyFromHost(void* device, const void* host, size_t bytes) = 0;
  virtual absl::Status CopyWithin(void* to, const void* from, size_t bytes) = 0;

  // Operations that copy: behind those before and ahead of those after them. Send has taken the
  // bytes when it returns and does not wait until they have arrived; Receive is complete.
  virtual absl::Status Send(void* device, const void* host, size_t bytes);
  virtual absl::Status Receive(void* host, const void* device, size_t bytes);

  virtual absl::Status Synchronize() = 0;

  // Calls task(0) .. task(n - 1) on the host's threads that the device has, on the caller's where
  // it has none; returns when all are done. An operation as to threads. Tasks do not throw.
  virtual void RunOnHost(int64_t n, const std::function<void(int64_t)>& task);

  // An operation that notes when the device comes to it, for measurements.
  virtual absl::StatusOr<std::unique_ptr<DeviceTime>> Now();

  // Whether carrying out a Recording takes less than carrying out its operations one by one.
  virtual bool records() const { return false; }
  // Calls `work`, whose operations are written down and not carried out, with the addresses and
  // numbers that they have now: that memory must outlive the recording. `work` must have run
  // before, so that nothing is left to prepare; it must not wait for the device, copy from or to
  // the host or allocate. An operation, and the one during which no other thread may call anything
  // of the device, what may be called from any thread included: it could be written down, too.
  // UNIMPLEMENTED unless records().
  virtual absl::StatusOr<std::unique_ptr<Recording>> Record(
      const std::function<absl::Status()>& work);

 protected:
  explicit Device(const Backend* backend) : backend_(backend) {}

  const Backend* backend_;
};

// `name` is "cpu" (SIMD, multi-threaded), "cuda" (an NVIDIA GPU; FAILED_PRECONDITION says what is
// missing for it) or "reference" (naive float64 loops, the oracle of the tests). `threads` = 0
// takes the cores this process may use (affinity and container quota counted). `isa` limits the
// instruction set: "" takes the best the processor has; otherwise one of "scalar", "sse4", "avx2",
// "avx-vnni", "avx512", "avx512-vnni", "avx512-bf16", "amx", "neon". On "cuda" it is words with
// commas: "tf32" lets float32 products of whole chunks of prompts round their factors to 11 bits,
// "serial" lets no kernel begin before the one ahead of it has ended. INVALID_ARGUMENT names what
// is available.
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(std::string_view name, int threads = 0,
                                                   std::string_view isa = "");

}  // namespace tvq

#endif  // TVQ_KERNELS_DEVICE_DEVICE_H_
