// A server without network and clock, for the driver's tests: its time jumps from event to event.
#ifndef TVQ_TESTS_CLIENT_LOADTEST_SIMULATED_SERVER_H_
#define TVQ_TESTS_CLIENT_LOADTEST_SIMULATED_SERVER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/loadtest/driver/transport.h"

namespace tvq::loadtest {

// Any number of requests at once, each with its first token after `first_token` and then one every
// `token`; during a stall nothing happens, and what was due then happens at its end.
class SimulatedServer final : public Transport {
 public:
  struct Behaviour {
    Nanos first_token = 10 * kMillisecond;
    Nanos token = 0;
    Nanos stall_begin = 0, stall_end = 0;
    int64_t capacity = 1 << 30;  // more at once are refused, at once
    Nanos retry_after = 100 * kMillisecond;
    bool deaf = false;  // calls never end, not even cancelled ones
    // A cancelled call's session is busy for so long after it.
    Nanos winding_up = 0;
  };
  explicit SimulatedServer(const Behaviour& behaviour) : behaviour_(behaviour) {}

  Nanos Now() const override { return now_; }
  void At(Nanos time, std::function<void()> callback) override;
  Call* Generate(const GenerateSpec& spec, CallListener* listener) override;
  Call* CreateSession(CallListener* listener) override;
  Call* DeleteSession(const std::string& session_id, CallListener* listener) override;
  void Run() override;
  void Stop() override;

  // What came: prompts in order, and the calls by name.
  std::vector<GenerateSpec> requests;
  std::vector<Nanos> request_times;
  std::set<std::string> sessions;
  std::map<std::string, Nanos> busy_until;  // sessions
  int64_t most_sessions = 0;
  int64_t running() const { return running_; }

 private:
  class SimulatedCall;

  Nanos AfterStall(Nanos time) const;
  std::shared_ptr<SimulatedCall> MakeCall(CallListener* listener);
  void End(const std::shared_ptr<SimulatedCall>& call, const Reply& reply);
  void SendToken(const std::shared_ptr<SimulatedCall>& call, int64_t left);

  const Behaviour behaviour_;
  Nanos now_ = 0;
  int64_t next_ = 0, running_ = 0;
  std::map<std::pair<Nanos, int64_t>, std::function<void()>> events_;
  std::vector<std::shared_ptr<SimulatedCall>> calls_;
  bool stopped_ = false;
};

}  // namespace tvq::loadtest

#endif  // TVQ_TESTS_CLIENT_LOADTEST_SIMULATED_SERVER_H_
