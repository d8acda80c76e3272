// What other threads tell the loop: new requests, cancellations, shutdown.
#ifndef TVQ_SERVER_ENGINE_INBOX_H_
#define TVQ_SERVER_ENGINE_INBOX_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/mutex.h"
#include "server/engine/engine.h"
#include "server/engine/scheduling/fair_queue.h"
#include "server/engine/scheduling/occupancy.h"
#include "server/engine/scheduling/reservation.h"
#include "server/engine/sequence/submission.h"

namespace tvq {

// The bounded queue and the bell of the loop. Any thread may call the first group, only the loop
// the second. It waits on the steady clock: a deadline must not move when the time of day is set.
class Inbox {
 public:
  Inbox(int64_t max_requests, int64_t max_tokens);

  // Gives the request its handle. RESOURCE_EXHAUSTED, saying length and limit, when the queue is
  // full, or full for its owner, if that has a name (FairShare).
  // UNAVAILABLE after Close.
  absl::StatusOr<RequestHandle> Push(Submission submission);
  void Cancel(RequestHandle handle);
  // The state that the request starts from is there, or why not.
  void Filled(RequestHandle handle, absl::StatusOr<HeldState> filled);
  // The state that the request left is given back or has found a place.
  void LetGo(RequestHandle handle);
  void Wake();
  // Push accepts nothing more.
  void Close();
  // What computes has failed, as `failure` says: nothing more is accepted, and everything accepted
  // is to end, with that status. Only the first failure counts.
  void Fail(absl::Status failure);
  // OK until then.
  absl::Status failure() const;
  // Everything accepted is to end with UNAVAILABLE. With `stop`, the loop ends after it.
  void Abort(bool stop);
  // True when every accepted request was done before `until`.
  bool WaitUntilIdle(SteadyTime until);
  int64_t waiting() const;

  struct News {
    // Left the queue without having started, with the reason. Only their sinks want to know.
    std::vector<std::pair<Submission, absl::Status>> ended;
    std::vector<RequestHandle> cancelled;  // not in the queue: running, or done already
    // What Fill gave, of requests that may be done already.
    std::vector<std::pair<RequestHandle, absl::StatusOr<HeldState>>> filled;
    std::vector<RequestHandle> let_go;  // whose states are gone that they left
    std::optional<absl::Status> abort;  // with which everything that runs is to end
    bool woken = false;                 // somebody called Wake
    bool stop = false;
  };
  // What happened since the last call, and the queue's requests whose deadline is not after `now`.
  News Take(SteadyTime now);
  // Of waiting requests, the first that fits but for idle states, and how many bytes it takes.
  struct Shortage {
    RequestHandle request = 0;  // none
    int64_t wanted = 0;
  };
  struct Admission {
    std::vector<Submission> admitted;  // with their shares
    Shortage shortage;
    bool crowded = false;                       // some wait on
    SteadyTime look_again = SteadyTime::max();  // when, if nothing happens
  };
  // The requests that fit, in FairQueue's order, but for those that a Reservation keeps from
  // starting. They are added to `occupancy`, and their prompts are charged.
  Admission Admit(Occupancy& occupancy, StateBudget& budget, SteadyTime now);
  // Tokens that running requests were served beyond their prompts.
  struct Served {
    const std::string* owner = nullptr;
    int64_t tokens = 0;
  };
  void Charge(std::span<const Served> served);
  // A request ended that was admitted, and so many tokens of its prompt were not computed.
  void GiveBack(const std::string& owner, const PromptCharge& charge, int64_t tokens);
  // Sleeps until something happens, or happened since Take, or until the earlier of `until` and the
  // first deadline in the queue.
  void Wait(SteadyTime until);
  // `count` accepted requests are done: their sinks know.
  void Done(int64_t count);

 private:
  // What an owner has in the queue.
  struct Waiting {
    int64_t requests = 0;
    int64_t tokens = 0;
  };

  absl::Status CheckRoom(const Submission& submission) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the last Admit saw, as far as that decides which request starts.
  struct Seen {
    uint64_t changes = 0;  // of the queue
    Need taken;
    int64_t bytes = 0;  // of the budget
    bool operator==(const Seen&) const = default;
  };
  Seen See(const Occupancy& occupancy, const StateBudget& budget) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static Waiter WaiterOf(const Submission& submission);
  // Of those that wait, the least of each kind.
  Need LeastNeed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The next that may start and fits, if there is one.
  std::optional<RequestHandle> Next(const Occupancy& occupancy, const StateBudget& budget)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  FairQueue::Visit Consider(const Submission& submission, const Need& least, int64_t free,
                            const Occupancy& occupancy) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Unless its bytes were taken meanwhile.
  void Start(RequestHandle handle, Occupancy& occupancy, StateBudget& budget, SteadyTime now,
             Admission& admission) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void End(RequestHandle handle, const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndAll(const absl::Status& status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Submission TakeOut(RequestHandle handle) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Ring() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int64_t max_requests_;
  const int64_t max_tokens_;

  mutable Mutex mutex_;
  Changed bell_;  // for the loop
  Changed idle_;  // for WaitUntilIdle
  std::map<RequestHandle, Submission> queue_ ABSL_GUARDED_BY(mutex_);
  FairQueue order_ ABSL_GUARDED_BY(mutex_);          // of queue_
  Reservation reservation_ ABSL_GUARDED_BY(mutex_);  // of one in queue_
  // Of those in queue_ that have one.
  std::set<std::pair<SteadyTime, RequestHandle>> deadlines_ ABSL_GUARDED_BY(mutex_);
  std::multiset<int64_t> state_bytes_ ABSL_GUARDED_BY(mutex_);    // that those in queue_ need
  std::multiset<int64_t> prompt_tokens_ ABSL_GUARDED_BY(mutex_);  // likewise
  uint64_t changes_ ABSL_GUARDED_BY(mutex_) = 0;      // how often a request came or went
  std::optional<Seen> seen_ ABSL_GUARDED_BY(mutex_);  // by Admit
  Shortage shortage_ ABSL_GUARDED_BY(mutex_);         // likewise
  int64_t queued_tokens_ ABSL_GUARDED_BY(mutex_) = 0;
  // Of owners that have something in queue_.
  std::map<std::string, Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
  News news_ ABSL_GUARDED_BY(mutex_);
  bool rung_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  int64_t accepted_ ABSL_GUARDED_BY(mutex_) = 0;  // and not done
  RequestHandle last_handle_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_INBOX_H_
