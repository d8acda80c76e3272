#include "server/engine/sequence/running_requests.h"

namespace tvq {

ActiveRequest& RunningRequests::Add(std::unique_ptr<ActiveRequest> request, const Need& need) {
  const RequestHandle handle = request->handle();
  Record& record = records_[handle];
  record.request = std::move(request);
  record.reserved = need;
  of_models_[record.request->model()] += need.sequences;
  const SteadyTime deadline = record.request->request().deadline;
  if (deadline != SteadyTime::max()) deadlines_.emplace(deadline, handle);
  return *record.request;
}

ActiveRequest* RunningRequests::Find(RequestHandle handle) {
  const auto it = records_.find(handle);
  return it == records_.end() ? nullptr : it->second.request.get();
}

std::vector<ActiveRequest*> RunningRequests::All() {
  std::vector<ActiveRequest*> all;
  all.reserve(records_.size());
  for (const auto& [handle, record] : records_) all.push_back(record.request.get());
  return all;
}

std::unique_ptr<ActiveRequest> RunningRequests::Remove(RequestHandle handle) {
  const auto it = records_.find(handle);
  Record& record = it->second;
  const int64_t left = record.request->LeftBytes();
  Count(record, {.state_bytes = left}, 0);
  if (left > 0) left_.emplace(handle, left);
  left_bytes_ += left;
  deadlines_.erase({record.request->request().deadline, handle});
  if (record.paused_since) paused_.erase({*record.paused_since, handle});
  std::unique_ptr<ActiveRequest> request = std::move(record.request);
  records_.erase(it);
  return request;
}

void RunningRequests::LetGo(RequestHandle handle) {
  const auto it = left_.find(handle);
  if (it == left_.end()) return;
  occupancy_.Release(handle, {.state_bytes = it->second});
  left_bytes_ -= it->second;
  left_.erase(it);
}

void RunningRequests::Recount(const ActiveRequest& request) {
  Count(records_.at(request.handle()), request.Reserved(), request.StateBytes());
}

void RunningRequests::Count(Record& record, const Need& reserved, int64_t state_bytes) {
  Need less = record.reserved;
  less -= reserved;
  if (less != Need{}) occupancy_.Release(record.request->handle(), less);
  of_models_[record.request->model()] -= less.sequences;
  state_bytes_ += state_bytes - record.state_bytes;
  record.reserved = reserved;
  record.state_bytes = state_bytes;
}

void RunningRequests::Pause(RequestHandle handle, SteadyTime now) {
  Record& record = records_.at(handle);
  record.paused_since = now;
  paused_.emplace(now, handle);
}

std::vector<RequestHandle> RunningRequests::TakeResumed() {
  std::vector<RequestHandle> resumed;
  for (auto it = paused_.begin(); it != paused_.end();) {
    Record& record = records_.at(it->second);
    if (record.request->request().sink->WantsMore()) {
      record.paused_since.reset();
      resumed.push_back(it->second);
      it = paused_.erase(it);
    } else {
      ++it;
    }
  }
  return resumed;
}

std::vector<ActiveRequest*> RunningRequests::PausedSince(SteadyTime time) {
  return UpTo(paused_, time);
}

std::vector<ActiveRequest*> RunningRequests::Late(SteadyTime now) { return UpTo(deadlines_, now); }

std::vector<ActiveRequest*> RunningRequests::UpTo(const Times& times, SteadyTime until) {
  std::vector<ActiveRequest*> found;
  for (auto it = times.begin(); it != times.end() && it->first <= until; ++it) {
    found.push_back(records_.at(it->second).request.get());
  }
  return found;
}

SteadyTime RunningRequests::first_deadline() const {
  return deadlines_.empty() ? SteadyTime::max() : deadlines_.begin()->first;
}

SteadyTime RunningRequests::first_pause() const {
  return paused_.empty() ? SteadyTime::max() : paused_.begin()->first;
}

}  // namespace tvq
