#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "server/engine/scheduling/owner_order.h"

namespace tvq {
namespace {

class PromptOrder : public OwnerOrder {
 public:
  void Add(const Asking& request) override {
    requests_[request.id] = request;
    rest_.insert(request.id);
  }

  void Remove(uint64_t id) override {
    const auto it = requests_.find(id);
    if (rest_.erase(id) == 0) Withdraw(it->second);
    requests_.erase(it);
  }

  bool empty() const override { return requests_.empty(); }

  void BeginStep() override {
    for (const uint64_t id : rest_) Offer(requests_.at(id));
    rest_.clear();
  }

  std::optional<uint64_t> Next() const override {
    if (by_age_.empty()) return std::nullopt;
    if (turn_ % 2 == 0) return std::get<2>(*by_priority_.begin());
    return turn_ % 4 == 3 ? *by_age_.begin() : by_left_.begin()->second;
  }

  void Take(int64_t cost, Then then) override {
    Asking& request = requests_.at(*Next());
    ++turn_;
    Withdraw(request);
    request.left -= cost;
    if (then == Then::kRest) {
      rest_.insert(request.id);
    } else {
      Offer(request);
    }
  }

 private:
  void Offer(const Asking& r) {
    by_priority_.emplace(r.priority, r.left, r.id);
    by_left_.emplace(r.left, r.id);
    by_age_.insert(r.id);
  }

  void Withdraw(const Asking& r) {
    by_priority_.erase({r.priority, r.left, r.id});
    by_left_.erase({r.left, r.id});
    by_age_.erase(r.id);
  }

  std::unordered_map<uint64_t, Asking> requests_;
  // Those that may have a turn in this step:
  std::set<std::tuple<int32_t, int64_t, uint64_t>> by_priority_;  // (priority, left, id)
  std::set<std::pair<int64_t, uint64_t>> by_left_;                // (left, id)
  std::set<uint64_t> by_age_;
  std::set<uint64_t> rest_;  // the others
  uint64_t turn_ = 0;        // how many it has given
};

}  // namespace

std::unique_ptr<OwnerOrder> NewPromptOrder() { return std::make_unique<PromptOrder>(); }

}  // namespace tvq
