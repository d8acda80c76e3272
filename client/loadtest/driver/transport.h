#ifndef TVQ_CLIENT_LOADTEST_DRIVER_TRANSPORT_H_
#define TVQ_CLIENT_LOADTEST_DRIVER_TRANSPORT_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "client/loadtest/workload/prompts.h"
#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

struct GenerateSpec {
  Prompt prompt;
  int64_t max_tokens = 1;
  uint64_t seed = 0;
  std::string session_id;  // empty: none
  // OnTokens must be exact. Otherwise tokens whose text came together may be told of at the end, by
  // OnJoinedTokens.
  bool count_tokens = false;
  // How long to wait between reads of the stream; 0: reads as fast as it can.
  Nanos read_pause = 0;
};

// How a call ended.
struct Reply {
  bool ok = true;
  std::string status;  // of one that did not end well: "RESOURCE_EXHAUSTED", "429"
  std::string message;
  std::optional<Nanos> retry_after;  // when to come back, if the server said so
  int64_t prompt_tokens = 0, cached_tokens = 0;
  std::string session_id;  // of CreateSession
  // The request went out twice: a connection that was kept had been closed meanwhile.
  bool reconnected = false;
};

class CallListener {
 public:
  virtual ~CallListener() = default;
  // `count` > 0 tokens came together.
  virtual void OnTokens(int64_t count) = 0;
  // Before OnReply: so many tokens came together with others that OnTokens told of.
  virtual void OnJoinedTokens(int64_t count) = 0;
  // Once, at the end, also of a call that was cancelled.
  virtual void OnReply(const Reply& reply) = 0;
};

// Lives until its listener's OnReply returns.
class Call {
 public:
  virtual ~Call() = default;
  // Ends the call soon; OnReply still comes.
  virtual void Cancel() = 0;
};

// A clock, timers and calls, all on the one thread that is in Run: whatever it calls back may use
// it, nothing else may. No call back happens within a method other than Run.
class Transport {
 public:
  virtual ~Transport() = default;

  virtual Nanos Now() const = 0;
  virtual void At(Nanos time, std::function<void()> callback) = 0;

  // The listener lives until its OnReply.
  virtual Call* Generate(const GenerateSpec& spec, CallListener* listener) = 0;
  virtual Call* CreateSession(CallListener* listener) = 0;
  virtual Call* DeleteSession(const std::string& session_id, CallListener* listener) = 0;

  // Returns after Stop, when the callback that called it has returned. May be called again.
  virtual void Run() = 0;
  // Forgets timers and calls: no callback of those before comes any more.
  virtual void Stop() = 0;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_DRIVER_TRANSPORT_H_
