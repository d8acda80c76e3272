#ifndef TVQ_CLIENT_LOADTEST_DRIVER_DRIVER_H_
#define TVQ_CLIENT_LOADTEST_DRIVER_DRIVER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>

#include "client/loadtest/driver/conversation.h"
#include "client/loadtest/driver/transport.h"
#include "client/loadtest/driver/workload.h"
#include "client/loadtest/statistics/recorder.h"
#include "client/loadtest/workload/arrivals.h"

namespace tvq::loadtest {

// One load: so many users, each of whom waits for an answer before the next request (closed loop),
// or requests that come at a rate, whatever becomes of those before (open loop).
struct Step {
  int64_t users = 0;  // > 0: closed loop
  Rate rate;
  bool open_loop() const { return users == 0; }
};

struct Limits {
  Nanos warm_up = 0, duration = kSecond;
  Nanos grace = 0;                // after that, for what still runs to end
  Nanos timeout = 0;              // of a call
  int64_t max_conversations = 0;  // the window ends with the last of them
  int64_t max_in_flight = 0;  // open loop: what comes when so many run is not sent, and has failed
};

// Runs one step: starts conversations, ends them in time. One thread.
class Driver {
 public:
  // What is told every 50 ms.
  struct Progress {
    Nanos elapsed;
    int64_t in_flight;
    bool draining;
  };

  // All of them outlive it. `interrupted`: set by any thread, ends the step soon.
  Driver(Transport& transport, const Workload& workload, const Step& step, const Limits& limits,
         Recorder& recorder, const std::atomic<bool>& interrupted);

  // Ids of conversations count from here; their random numbers depend on them.
  void set_first_id(uint64_t id) { next_id_ = id; }
  uint64_t next_id() const { return next_id_; }
  void set_on_progress(std::function<void(const Progress&)> on_progress);

  // Until all is over.
  void Run();

 private:
  Nanos Now() const { return transport_.Now() - environment_.origin; }
  void At(Nanos time, std::function<void()> callback);
  void StartDueArrivals();
  void StartUser(Nanos due);
  void Start(Nanos due);
  bool Exhausted() const { return started_ >= limits_.max_conversations; }
  void Ended(uint64_t id);
  void Tick();
  void StopArrivals(Nanos now);
  void ForAll(const std::function<void(Conversation&)>& action);

  Transport& transport_;
  const Workload& workload_;
  const Step step_;
  const Limits limits_;
  Recorder& recorder_;
  const std::atomic<bool>& interrupted_;
  std::function<void(const Progress&)> on_progress_;

  Conversation::Environment environment_;
  Conversation::Hooks hooks_;
  PoissonArrivals arrivals_;
  std::optional<Nanos> next_arrival_;
  Random pauses_;
  uint64_t next_id_ = 0;
  int64_t started_ = 0;
  std::unordered_map<uint64_t, std::unique_ptr<Conversation>> live_;
  Nanos last_ended_ = 0;
  Nanos stopped_at_ = 0;  // when arrivals ended
  bool abandoned_ = false;
  bool done_ = false;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_DRIVER_DRIVER_H_
