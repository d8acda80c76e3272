#ifndef TVQ_CLIENT_LOADTEST_DRIVER_CONVERSATION_H_
#define TVQ_CLIENT_LOADTEST_DRIVER_CONVERSATION_H_

#include <functional>
#include <string>

#include "client/loadtest/driver/transport.h"
#include "client/loadtest/driver/workload.h"
#include "client/loadtest/statistics/recorder.h"
#include "client/loadtest/workload/random.h"

namespace tvq::loadtest {

// One client: a request, or with sessions create, several requests with pauses, delete. It draws
// all that it does from its own random numbers, so a run is the same whatever the server's speed.
class Conversation final : public CallListener {
 public:
  // What a conversation needs of the driver; outlives it.
  struct Environment {
    Transport* transport;
    const Workload* workload;
    Recorder* recorder;
    Nanos origin = 0;       // begin of the step, on the transport's clock
    Nanos timeout = 0;      // of an attempt
    bool stopping = false;  // no further turns and repetitions
  };
  // Calls `wake_at(id, time)` to have Wake called, `ended(id)` when all is over: it may then be
  // destroyed, not before that returns.
  struct Hooks {
    std::function<void(uint64_t id, Nanos time)> wake_at;
    std::function<void(uint64_t id)> ended;
  };

  // `due`: when its first request should be sent, since the begin of the step.
  Conversation(uint64_t id, Nanos due, const Environment* environment, const Hooks* hooks);

  void Start();
  void Wake();
  // Cancels a call that has taken too long.
  void CheckTimeout();
  // After environment.stopping was set: ends unless a request is under way.
  void Stop();
  // Ends soon: what runs is cancelled, and counts as failed; a session is still deleted.
  void Abandon();

  // How the last request went; how long the server asked to stay away.
  bool failed() const { return request_.result == RequestRecord::Result::kFailed; }
  std::optional<Nanos> retry_after() const { return retry_after_; }

  void OnTokens(int64_t count) override;
  void OnJoinedTokens(int64_t count) override;
  void OnReply(const Reply& reply) override;

 private:
  enum class Stage { kIdle, kCreate, kGenerate, kWait, kDelete, kWaitToDelete };
  enum class CancelReason { kNone, kPlanned, kTimeout, kAbandoned };

  Nanos Now() const;
  void BeginRequest(Nanos due);
  bool CountsGaps() const;
  void Send();
  void Cancel(CancelReason reason);
  void Created(const Reply& reply);
  void Delete();
  void Deleted(const Reply& reply);
  void Generated(const Reply& reply);
  void Fail(const Reply& reply);
  void EndRequest(RequestRecord::Result result);
  void Finish();
  std::string Status(const Reply& reply) const;

  const uint64_t id_;
  const Environment& environment_;
  const Hooks& hooks_;
  Random random_;
  int64_t turns_left_;
  std::string session_id_;
  Nanos finished_at_ = 0;
  int deletions_ = 0;  // that were tried

  Stage stage_ = Stage::kIdle;
  bool abandoned_ = false;
  Call* call_ = nullptr;  // the one that runs
  Nanos call_sent_ = 0;
  CancelReason cancel_reason_ = CancelReason::kNone;
  Nanos cancelled_at_ = 0;

  // The request of this turn.
  GenerateSpec spec_;
  RequestRecord request_;
  int64_t cancel_after_ = 0;  // tokens; 0: never
  std::optional<Nanos> retry_after_;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_DRIVER_CONVERSATION_H_
