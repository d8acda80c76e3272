#include "tests/client/loadtest/simulated_server.h"

#include <algorithm>

namespace tvq::loadtest {

class SimulatedServer::SimulatedCall final : public Call {
 public:
  SimulatedCall(SimulatedServer* server, CallListener* listener)
      : server_(*server), listener(listener) {}
  void Cancel() override {
    cancelled = true;
    if (server_.behaviour_.deaf) return;
    server_.busy_until[session_id] = server_.now_ + server_.behaviour_.winding_up;
    server_.At(server_.now_, [this] {
      if (!ended) server_.End(self.lock(), {.ok = false, .status = "CANCELLED"});
    });
  }

  SimulatedServer& server_;
  CallListener* listener;
  std::string session_id;
  bool cancelled = false, ended = false, counted = false;
  std::weak_ptr<SimulatedCall> self;
};

void SimulatedServer::At(Nanos time, std::function<void()> callback) {
  events_[{std::max(time, now_), next_++}] = std::move(callback);
}

Nanos SimulatedServer::AfterStall(Nanos time) const {
  return time >= behaviour_.stall_begin && time < behaviour_.stall_end ? behaviour_.stall_end
                                                                       : time;
}

std::shared_ptr<SimulatedServer::SimulatedCall> SimulatedServer::MakeCall(CallListener* listener) {
  auto call = std::make_shared<SimulatedCall>(this, listener);
  call->self = call;
  calls_.push_back(call);
  return call;
}

void SimulatedServer::End(const std::shared_ptr<SimulatedCall>& call, const Reply& reply) {
  call->ended = true;
  running_ -= call->counted ? 1 : 0;
  call->listener->OnReply(reply);
}

void SimulatedServer::SendToken(const std::shared_ptr<SimulatedCall>& call, int64_t left) {
  if (call->ended || call->cancelled) return;
  call->listener->OnTokens(1);
  if (left > 1) {
    At(AfterStall(now_ + behaviour_.token), [=, this] { SendToken(call, left - 1); });
  } else {
    End(call, {});
  }
}

Call* SimulatedServer::Generate(const GenerateSpec& spec, CallListener* listener) {
  requests.push_back(spec);
  request_times.push_back(now_);
  const auto call = MakeCall(listener);
  call->session_id = spec.session_id;
  if (behaviour_.deaf) return call.get();
  if (running_ >= behaviour_.capacity) {
    At(now_ + kMillisecond, [=, this] {
      if (call->ended) return;
      End(call, {.ok = false,
                 .status = "RESOURCE_EXHAUSTED",
                 .message = "full",
                 .retry_after = behaviour_.retry_after});
    });
    return call.get();
  }
  ++running_;
  call->counted = true;
  // A request that comes amid a stall begins when that is over.
  At(AfterStall(now_) + behaviour_.first_token, [=, this, tokens = spec.max_tokens] {
    At(AfterStall(now_), [=, this] { SendToken(call, tokens); });
  });
  return call.get();
}

Call* SimulatedServer::CreateSession(CallListener* listener) {
  const auto call = MakeCall(listener);
  At(now_ + kMillisecond, [=, this] {
    if (call->ended) return;
    std::string id = std::to_string(next_++);
    sessions.insert(id);
    most_sessions = std::max(most_sessions, static_cast<int64_t>(sessions.size()));
    End(call, {.session_id = id});
  });
  return call.get();
}

Call* SimulatedServer::DeleteSession(const std::string& session_id, CallListener* listener) {
  const auto call = MakeCall(listener);
  At(now_ + kMillisecond, [=, this] {
    if (call->ended) return;
    if (busy_until[session_id] > now_) return End(call, {.ok = false, .status = "ABORTED"});
    const bool found = sessions.erase(session_id) > 0;
    End(call, {.ok = found, .status = found ? "" : "NOT_FOUND"});
  });
  return call.get();
}

void SimulatedServer::Run() {
  stopped_ = false;
  while (!stopped_ && !events_.empty()) {
    const auto first = events_.begin();
    now_ = first->first.first;
    const auto callback = std::move(first->second);
    events_.erase(first);
    callback();
  }
}

void SimulatedServer::Stop() {
  stopped_ = true;
  events_.clear();
}

}  // namespace tvq::loadtest
