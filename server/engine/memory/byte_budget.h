// A number of bytes that may be taken, and who has how many.
#ifndef TVQ_SERVER_ENGINE_MEMORY_BYTE_BUDGET_H_
#define TVQ_SERVER_ENGINE_MEMORY_BYTE_BUDGET_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace tvq {

// Exact. Any thread. Must outlive its shares.
class ByteBudget {
 public:
  // Bytes taken; given back by the destructor. One thread at a time.
  class Share {
   public:
    Share() = default;
    Share(Share&& other) noexcept
        : budget_(std::exchange(other.budget_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Share& operator=(Share&& other) noexcept;
    ~Share() { Reset(); }

    int64_t bytes() const { return bytes_; }
    // Cuts a part off this share; `bytes` is at most bytes().
    Share Split(int64_t bytes);
    // False, and no change, if there is not so much left.
    [[nodiscard]] bool TryResize(int64_t bytes);
    // For what exists already, even if there is less left; then nothing more can be taken.
    void ForceResize(int64_t bytes);
    // Gives back what is above `bytes`.
    void Shrink(int64_t bytes);
    void Reset();

   private:
    friend class ByteBudget;
    Share(ByteBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
    ByteBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit ByteBudget(int64_t total) : total_(total) {}
  virtual ~ByteBudget() = default;
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  // Nothing if less than `bytes` is left.
  std::optional<Share> TryReserve(int64_t bytes);
  // An empty share, to be resized.
  Share Nothing() { return {this, 0}; }

  int64_t total() const { return total_; }
  int64_t used() const;

 protected:
  // Called after bytes came back, on the thread that gave them; without a lock.
  virtual void OnRelease() {}

 private:
  bool TryTake(int64_t bytes);
  void Release(int64_t bytes);

  const int64_t total_;
  mutable Mutex mutex_;
  int64_t used_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_MEMORY_BYTE_BUDGET_H_
