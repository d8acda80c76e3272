// The bytes that all decoding states of a server may take together.
#ifndef TVQ_SERVER_ENGINE_STATE_BUDGET_H_
#define TVQ_SERVER_ENGINE_STATE_BUDGET_H_

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

namespace tvq {

// Exact: a state exists only with a share that covers it, so what was admitted never has to make
// room again. Shared by the engine's running requests and by the states that sessions and prefixes
// keep between requests. Any thread.
class StateBudget {
 public:
  // Bytes taken from a budget, which must outlive it; given back by the destructor.
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
    // Gives back what is above `bytes`.
    void Shrink(int64_t bytes);
    void Reset();

   private:
    friend class StateBudget;
    Share(StateBudget* budget, int64_t bytes) : budget_(budget), bytes_(bytes) {}
    StateBudget* budget_ = nullptr;
    int64_t bytes_ = 0;
  };

  explicit StateBudget(int64_t total) : total_(total) {}

  // Nothing if less than `bytes` is left.
  std::optional<Share> TryReserve(int64_t bytes);

  int64_t total() const { return total_; }
  int64_t used() const;

  // Who keeps states that are not in use is told how many bytes are missing now for what wants to
  // run, and is expected to give some back soon; it is told again while they do not suffice. The
  // call must not block; it may use the budget. Setting a listener waits for a call under way.
  void OnShortage(std::function<void(int64_t missing)> listener);
  // Tells the listener. Whoever has to wait after a TryReserve that failed calls it, and then tries
  // once more: what came back in between has rung no bell.
  void ReportShortage(int64_t missing);
  // Whether one was reported and nothing has come back since.
  bool shortage() const;

  // The engine's: called after the first bytes that come back after a shortage was reported. Must
  // not block nor use the budget. Setting a listener waits for a call under way.
  void OnRelief(std::function<void()> listener);

 private:
  void Release(int64_t bytes);

  const int64_t total_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  int64_t used_ = 0;
  bool short_ = false;

  // Each guarded by its own mutex, which is held during the call.
  std::mutex shortage_mutex_;
  std::function<void(int64_t)> on_shortage_;
  std::mutex relief_mutex_;
  std::function<void()> on_relief_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_STATE_BUDGET_H_
