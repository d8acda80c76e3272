// The requests that were admitted, and what they take together, with the states that ended ones
// left.
#ifndef TVQ_SERVER_ENGINE_SEQUENCE_RUNNING_REQUESTS_H_
#define TVQ_SERVER_ENGINE_SEQUENCE_RUNNING_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "server/engine/scheduling/occupancy.h"
#include "server/engine/sequence/active_request.h"

namespace tvq {

// The loop goes through all of them only when all are to end. Otherwise a step costs only as much
// as the requests that it computes. Used by the loop alone.
class RunningRequests {
 public:
  RunningRequests(const Need& total, size_t models) : occupancy_(total), of_models_(models) {}

  // `need` is in the occupancy already.
  ActiveRequest& Add(std::unique_ptr<ActiveRequest> request, const Need& need);
  // Null if it is not among them.
  ActiveRequest* Find(RequestHandle handle);
  std::vector<ActiveRequest*> All();
  // Takes it out. The state that it leaves counts as its owner's until LetGo.
  std::unique_ptr<ActiveRequest> Remove(RequestHandle handle);
  // Of a request that was taken out: its state is given back or has found a place. Without effect
  // if it left none.
  void LetGo(RequestHandle handle);
  // To be called when it may hold more or less than the last time.
  void Recount(const ActiveRequest& request);

  // Its reader is behind since `now`.
  void Pause(RequestHandle handle, SteadyTime now);
  // Paused ones whose reader wants more; they are paused no longer.
  std::vector<RequestHandle> TakeResumed();
  // Paused since `time` or earlier.
  std::vector<ActiveRequest*> PausedSince(SteadyTime time);
  // Whose deadline is `now` or earlier.
  std::vector<ActiveRequest*> Late(SteadyTime now);
  // The first deadline, and when the first of those that are paused was; max() if there is none.
  SteadyTime first_deadline() const;
  SteadyTime first_pause() const;

  Occupancy& occupancy() { return occupancy_; }
  int64_t size() const { return static_cast<int64_t>(records_.size()); }
  int64_t state_bytes() const { return state_bytes_; }  // that states hold now
  int64_t left_bytes() const { return left_bytes_; }    // of states that ended requests left
  // Of the requests that are there.
  Need reserved() const {
    Need reserved = occupancy_.taken();
    reserved.state_bytes -= left_bytes_;
    return reserved;
  }
  int64_t sequences_of(size_t model) const { return of_models_[model]; }

 private:
  struct Record {
    std::unique_ptr<ActiveRequest> request;
    Need reserved;            // as counted
    int64_t state_bytes = 0;  // as counted
    std::optional<SteadyTime> paused_since;
  };
  using Times = std::set<std::pair<SteadyTime, RequestHandle>>;

  void Count(Record& record, const Need& reserved, int64_t state_bytes);
  // Of `times`, those up to `until`.
  std::vector<ActiveRequest*> UpTo(const Times& times, SteadyTime until);

  Occupancy occupancy_;
  std::map<RequestHandle, Record> records_;
  std::vector<int64_t> of_models_;  // sequences
  int64_t state_bytes_ = 0;
  std::map<RequestHandle, int64_t> left_;  // bytes of states, by the requests that left them
  int64_t left_bytes_ = 0;                 // their sum
  Times deadlines_;                        // of those that have one
  Times paused_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_ENGINE_SEQUENCE_RUNNING_REQUESTS_H_
