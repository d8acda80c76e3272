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

// Operations that were recorded once (Device::Record) and are carried out together. Must be
// destroyed before its device.
class Recording {
 public:
  virtual ~Recording() = default;
  // Carries them out; this is an operation of the device.
  virtual absl::Status Run() = 0;
};

// A moment in the order of a device's operations. Must be destroyed before its device.
class DeviceTime {
 public:
  virtual ~DeviceTime() = default;
  // Seconds from `earlier`, a moment of the same device, to this one. Waits until the device has
  // reached this one.
  virtual absl::StatusOr<double> SecondsSince(const DeviceTime& earlier) const = 0;
};

// Allocate, the functions that follow it up to CopyWithin, and the freeing of memory may be called
// from any thread, as long as nothing else writes the memory that they touch and nothing is being
// recorded. Operations (the ops, and the functions that are called operations below) may be called
// by one thread at a time, the engine's loop. For the host, operations are complete after
// Synchronize.
class Device {
 public:
  virtual ~Device() = default;

  // For people: backend, instruction set, threads; for example "cpu (avx512-bf16, 2 threads)". For
  // a GPU it also names what options change, and says "overlapping" where a kernel may begin before
  // the one ahead of it has ended.
  virtual std::string Describe() const = 0;
  // The functions that ops call.
  const Backend& backend() const { return *backend_; }

  // OK, or UNAVAILABLE, which names the device, when the device has failed for good: nothing that
  // it holds can be read any more, and nothing can be computed. Call it after any error to learn
  // whether that is the cause. May be called from any thread, but not while operations are
  // recorded.
  virtual absl::Status Health() const { return absl::OkStatus(); }

  // Whether the host can read device memory: then ops check the indices in their arguments, too.
  virtual bool host_memory() const = 0;

  // RESOURCE_EXHAUSTED, which names the size, when there is not enough memory. The memory is
  // zeroed.
  virtual absl::StatusOr<Buffer> Allocate(size_t bytes) = 0;
  // For memory that comes and goes in few sizes, as the states of sessions do: a device may keep
  // what is freed and hand it out again as it was left, which spares finding and zeroing fresh
  // memory. Unless it is zeroed, the caller must zero it or write all of it before it is read.
  struct Reusable {
    Buffer memory;
    bool zeroed = true;
  };
  virtual absl::StatusOr<Reusable> AllocateReusable(size_t bytes);
  // Takes `bytes` of memory at once; from then on AllocateReusable hands out parts of it. Does
  // nothing on a device that allocates at no cost. May be called once. RESOURCE_EXHAUSTED names the
  // sizes.
  virtual absl::Status Reserve(size_t bytes) {
    static_cast<void>(bytes);
    return absl::OkStatus();
  }
  // Free bytes of the device's own memory; nullopt for a device that computes in the host's memory.
  virtual std::optional<int64_t> FreeMemory() const { return std::nullopt; }
  virtual absl::Status Zero(void* device, size_t bytes) = 0;
  virtual absl::Status CopyToHost(void* host, const void* device, size_t bytes) = 0;
  virtual absl::Status CopyFromHost(void* device, const void* host, size_t bytes) = 0;
  virtual absl::Status CopyWithin(void* to, const void* from, size_t bytes) = 0;

  // Copies that are operations: they take place after the operations before them and before those
  // after them. When Send returns, it has read the bytes, but they may not have arrived yet; when
  // Receive returns, they have.
  virtual absl::Status Send(void* device, const void* host, size_t bytes);
  virtual absl::Status Receive(void* host, const void* device, size_t bytes);

  virtual absl::Status Synchronize() = 0;

  // Calls task(0) .. task(n - 1) on the device's host threads, or on the caller's thread if it has
  // none; returns when all are done. Like an operation, it may be called by one thread at a time.
  // Tasks must not throw.
  virtual void RunOnHost(int64_t n, const std::function<void(int64_t)>& task);

  // An operation that notes the moment when the device reaches it, for measurements.
  virtual absl::StatusOr<std::unique_ptr<DeviceTime>> Now();

  // Whether carrying out a Recording takes less than carrying out its operations one by one.
  virtual bool records() const { return false; }
  // Calls `work` and records its operations instead of carrying them out, with the addresses and
  // numbers that they have now; the memory at these addresses must outlive the recording. `work`
  // must have run before, so that nothing is left to prepare. It must not wait for the device, copy
  // from or to the host, or allocate. Record is an operation itself. While it runs, no other thread
  // may call any function of the device, not even those that any thread may call at other times:
  // their work could be recorded, too. UNIMPLEMENTED unless records().
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
// "avx-vnni", "avx512", "avx512-vnni", "avx512-bf16", "amx", "neon". On "cuda", `isa` is a list of
// words with commas between them: "tf32" lets float32 products of whole chunks of prompts round
// their factors to 11 bits; "serial" makes each kernel wait until the one before it has ended.
// INVALID_ARGUMENT names what is available.
absl::StatusOr<std::unique_ptr<Device>> MakeDevice(std::string_view name, int threads = 0,
                                                   std::string_view isa = "");

}  // namespace tvq

#endif  // TVQ_KERNELS_DEVICE_DEVICE_H_
