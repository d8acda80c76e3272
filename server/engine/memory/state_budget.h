// The bytes that all decoding states of a server may take together.
#ifndef TVQ_SERVER_ENGINE_MEMORY_STATE_BUDGET_H_
#define TVQ_SERVER_ENGINE_MEMORY_STATE_BUDGET_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/mutex.h"
#include "server/engine/memory/byte_budget.h"

namespace tvq {

// A state exists only with a share that covers it, so what was admitted never has to make room
// again. Shared by the engine's running requests and by the states that sessions and prefixes keep
// between requests. Any thread.
class StateBudget : public ByteBudget {
 public:
  using ByteBudget::ByteBudget;

  // The listener keeps states that are not in use. It is told how many bytes are wanted, and should
  // soon give back states until so many are free at once; while they are not, it is told again. It
  // must not block, but may use the budget. Setting a listener waits for a call under way.
  void OnShortage(std::function<void(int64_t wanted)> listener);
  // Tells the listener. After TryReserve(wanted) failed, a thread calls this before it waits, and
  // then tries once more: bytes that came back in between have woken no thread.
  void ReportShortage(int64_t wanted);
  // Whether one was reported and nothing has come back since.
  bool shortage() const;

  // Pays for memory that states share, until what this returns is released.
  std::shared_ptr<const void> PaySealed(Share share);
  int64_t sealed_bytes() const { return sealed_bytes_; }  // of what is used

  // The engine's: called after the first bytes that come back after a shortage was reported. Must
  // not block nor use the budget. Setting a listener waits for a call under way.
  void OnRelief(std::function<void()> listener);

 private:
  void OnRelease() override;

  std::atomic<int64_t> sealed_bytes_ = 0;
  mutable Mutex short_mutex_;
  bool short_ ABSL_GUARDED_BY(short_mutex_) = false;

  // Their mutexes are held during the call.
  Mutex shortage_mutex_;
  std::function<void(int64_t)> on_shortage_ ABSL_GUARDED_BY(shortage_mutex_);
  Mutex relief_mutex_;
  std::function<void()> on_relief_ ABSL_GUARDED_BY(relief_mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_MEMORY_STATE_BUDGET_H_
