// Random worlds of owners that wait keep the promises of FairQueue, and agree with its definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "server/engine/scheduling/fair_queue.h"

namespace tvq {
namespace {

using Visit = FairQueue::Visit;

std::optional<uint64_t> Next(FairQueue& queue) {
  return queue.Find([](uint64_t) { return Visit::kTake; });
}

// Goyal, Vin and Cheng, Theorem 1: while both contend, from the first turn of the second on.
TEST(FairQueueWorldsTest, TwoThatContendStartAlike) {
  struct Client {
    bool waits = false;
    int64_t largest = 1;
  };
  struct Pair {
    std::optional<size_t> last;  // that had a turn
    bool counts = false;
    int64_t ahead = 0;  // tokens of the first of the pair
    int64_t least = 0, most = 0;
  };
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    FairQueue queue;
    std::vector<Client> clients(static_cast<size_t>(2 + below(5)));
    for (Client& c : clients) c.largest = below(2) == 0 ? 1 + below(10) : 1 + below(10'000);
    std::map<std::pair<size_t, size_t>, Pair> pairs;
    std::map<uint64_t, std::pair<size_t, int64_t>> requests;  // client and tokens
    uint64_t id = 0;
    const auto push = [&](size_t who) {
      const int64_t tokens = 1 + below(clients[who].largest);
      requests[++id] = {who, tokens};
      queue.Push(id, std::to_string(who), 0, tokens);
    };
    for (int step = 0; step < 500; ++step) {
      const auto who = static_cast<size_t>(below(std::ssize(clients)));
      if (!clients[who].waits) {
        clients[who].waits = true;
        push(who);
      } else if (below(20) == 0) {
        clients[who].waits = false;
        std::erase_if(requests, [&](const auto& r) {
          return r.second.first == who && queue.Remove(r.first);
        });
        std::erase_if(pairs,
                      [&](const auto& p) { return p.first.first == who || p.first.second == who; });
      }
      const std::optional<uint64_t> first = Next(queue);
      if (!first) continue;
      const auto [starts, tokens] = requests.extract(*first).mapped();
      push(starts);
      queue.Pop(*first);
      for (size_t other = 0; other < clients.size(); ++other) {
        if (other == starts || !clients[other].waits) continue;
        Pair& pair = pairs[std::minmax(starts, other)];
        if (pair.last == other && !pair.counts) {
          pair.counts = true;
          pair.least = pair.most = pair.ahead;
        }
        pair.last = starts;
        pair.ahead += starts < other ? tokens : -tokens;
        if (!pair.counts) continue;
        pair.least = std::min(pair.least, pair.ahead);
        pair.most = std::max(pair.most, pair.ahead);
        ASSERT_LE(pair.most - pair.least, clients[starts].largest + clients[other].largest);
      }
    }
  }
}

// Owners of different sizes come and go at random, some of their requests are given back, and now
// and then one comes for the first time.
TEST(FairQueueWorldsTest, ANewOwnerWaitsForItsSizeAndOneRequestOfEach) {
  struct Request {
    size_t owner = 0;
    int64_t tokens = 0;
  };
  struct Started {
    Request request;
    int64_t end = 0;
    bool counts = false;  // started while the newcomer waits
  };
  for (uint32_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
    FairQueue queue;
    constexpr int64_t kLargest[] = {1, 10, 1000, 100'000};
    const auto owners = static_cast<size_t>(1 + below(6));
    std::vector<int64_t> largest(owners), waits(owners);
    for (int64_t& l : largest) l = kLargest[below(4)];
    std::map<uint64_t, Request> requests;
    std::vector<Started> started;
    std::vector<int64_t> before_it(owners);  // tokens of each
    std::vector<bool> contended(owners);     // when the newcomer came
    uint64_t id = 0, newcomer = 0;
    int64_t size = 0;  // of the newcomer
    for (int step = 0; step < 1000; ++step) {
      if (below(3) > 0) {
        const auto owner = static_cast<size_t>(below(std::ssize(largest)));
        requests[++id] = {owner, 1 + below(largest[owner])};
        queue.Push(id, std::to_string(owner), 0, requests[id].tokens);
        ++waits[owner];
      }
      if (newcomer == 0 && below(10) == 0) {
        newcomer = ++id;
        size = 1 + below(kLargest[below(4)]);
        queue.Push(id, "new " + std::to_string(id), 0, size);
        std::ranges::fill(before_it, 0);
        for (size_t i = 0; i < owners; ++i) contended[i] = waits[i] > 0;
        for (Started& s : started) s.counts = false;
      }
      if (!started.empty() && below(3) == 0) {
        const auto given_back = started.begin() + below(std::ssize(started));
        const auto& [request, end, counts] = *given_back;
        queue.GiveBack(std::to_string(request.owner), end, request.tokens);
        if (counts) before_it[request.owner] -= request.tokens;
        started.erase(given_back);
      }
      const std::optional<uint64_t> first = Next(queue);
      if (!first || below(2) == 0) continue;
      const int64_t end = queue.Pop(*first);
      if (*first == newcomer) {
        newcomer = 0;
        continue;
      }
      const Request request = requests.extract(*first).mapped();
      --waits[request.owner];
      started.push_back({request, end, true});
      if (newcomer == 0) continue;
      before_it[request.owner] += request.tokens;
      ASSERT_LE(before_it[request.owner], size + largest[request.owner]);
      int64_t together = 0, bound = 0;
      for (size_t i = 0; i < owners; ++i) {
        if (!contended[i]) continue;
        together += before_it[i];
        bound += 2 * largest[i] + 1;  // the mean is rounded
      }
      ASSERT_LE(together, bound);
    }
  }
}

// What a waiting owner is ahead lapses as the others start, though none of these comes twice.
TEST(FairQueueWorldsTest, OwnersThatAlwaysAreNewPutOffNobodyForLong) {
  constexpr int64_t kAhead = 20'000;
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    FairQueue queue;
    const auto others = static_cast<int64_t>(2 + random() % 4);
    constexpr int64_t kLargest = 500;
    std::map<uint64_t, int64_t> requests;  // tokens
    uint64_t id = 2;
    const auto push_new = [&] {
      const int64_t largest = random() % 2 == 0 ? 5 : kLargest;
      requests[++id] = 1 + static_cast<int64_t>(random()) % largest;
      queue.Push(id, "new " + std::to_string(id), 0, requests[id]);
    };
    queue.Push(1, "waits", 0, kAhead);
    for (int64_t i = 0; i < others; ++i) push_new();
    ASSERT_EQ(Next(queue), 1);
    queue.Pop(1);
    queue.Push(2, "waits", 0, 1);
    // At the end a round of requests takes only a part off.
    const int64_t round = others * kLargest;
    const auto rounds = static_cast<int64_t>(std::log(round + kLargest)) + 2;
    int64_t started = 0;
    while (*Next(queue) != 2) {
      const uint64_t first = *Next(queue);
      queue.Pop(first);
      started += requests[first];
      push_new();
      ASSERT_LE(started, others * kAhead + (others + 1) * rounds * round);
    }
    EXPECT_GE(started, kAhead - kLargest) << "what it is ahead is not forgotten either";
  }
}

// The definition, by looking at all.
class Definition {
 public:
  struct Item {
    uint64_t id = 0;
    std::string owner;
    int32_t priority = 0;
    int64_t tokens = 0;
  };

  bool empty() const { return waiting_.empty(); }
  const Item& At(size_t i) const { return waiting_[i]; }
  size_t size() const { return waiting_.size(); }

  void Push(const Item& item) {
    if (!Waits(item.owner)) Join(item.owner, item.tokens);
    waiting_.push_back(item);
  }

  void Remove(uint64_t id) { TakeOut(id); }

  void Charge(const std::string& owner, int64_t tokens) {
    if (Contending().empty()) return;
    if (!Contends(owner)) time_[owner] = std::max(time_[owner], Earliest());
    time_[owner] += tokens;
    latest_ = std::max(latest_, time_[owner]);
  }

  void GiveBack(const std::string& owner, int64_t end, int64_t tokens) {
    if (!time_.contains(owner) || Contending().empty()) return;
    const int64_t lapsed = Earliest();
    const int64_t owed = std::clamp<int64_t>(end - lapsed, 0, tokens);
    time_[owner] = std::max(time_[owner] - owed, std::min(time_[owner], lapsed));
  }

  // Of the owners that were shown, in order, those that cannot start are `cannot`.
  void Shown(const std::vector<std::string>& shown, const std::set<std::string>& cannot) {
    for (const std::string& owner : shown) {
      if (cannot.contains(owner)) {
        held_.insert(owner);
      } else if (held_.contains(owner)) {
        Join(owner, Following(owner).tokens);
      }
    }
  }

  // Of those that can start.
  void ExpectFirst(const Item& item, const std::set<std::string>& cannot) {
    for (const Item& i : waiting_) {
      if (!cannot.contains(i.owner)) EXPECT_LE(time_[item.owner], time_[i.owner]);
    }
    EXPECT_EQ(item.id, Following(item.owner).id);
  }

  // Where it ends.
  int64_t Pop(const Item& item) {
    ++turns_[item.owner];
    const int64_t end = time_[item.owner] += item.tokens;
    latest_ = std::max(latest_, end);
    TakeOut(item.id);
    return end;
  }

 private:
  bool Waits(const std::string& owner) const {
    return std::ranges::find(waiting_, owner, &Item::owner) != waiting_.end();
  }
  bool Contends(const std::string& owner) const { return Waits(owner) && !held_.contains(owner); }

  // The next of its owner.
  Item Following(const std::string& owner) {
    std::optional<Item> next;
    for (const Item& i : waiting_) {
      if (i.owner != owner) continue;
      const bool before = !next || (turns_[owner] % 2 == 0 && i.priority < next->priority);
      if (before) next = i;
    }
    return *next;
  }

  void Join(const std::string& owner, int64_t tokens) {
    time_[owner] = std::max(time_[owner], Beginning(tokens));
    held_.erase(owner);
  }

  void TakeOut(uint64_t id) {
    const auto item = std::ranges::find(waiting_, id, &Item::id);
    const std::string owner = item->owner;
    waiting_.erase(item);
    if (!Waits(owner)) held_.erase(owner);
    if (!waiting_.empty()) return;
    time_.clear();
    turns_.clear();
  }

  std::set<std::string> Contending() const {
    std::set<std::string> owners;
    for (const Item& i : waiting_) {
      if (Contends(i.owner)) owners.insert(i.owner);
    }
    return owners;
  }

  int64_t Earliest() {
    int64_t earliest = INT64_MAX;
    for (const std::string& owner : Contending()) earliest = std::min(earliest, time_[owner]);
    return earliest;
  }

  int64_t Beginning(int64_t tokens) {
    const std::set<std::string> owners = Contending();
    if (owners.empty()) return latest_;
    int64_t sum = 0;
    for (const std::string& owner : owners) sum += time_[owner];
    const int64_t mean = sum / std::ssize(owners) + (sum % std::ssize(owners) > 0 ? 1 : 0);
    return std::min(Earliest() + tokens, mean);
  }

  std::vector<Item> waiting_;
  std::set<std::string> held_;  // of those that wait, those that do not contend
  std::map<std::string, int64_t> time_;
  std::map<std::string, int> turns_;
  int64_t latest_ = 0;
};

TEST(FairQueueWorldsTest, AgreesWithTheDefinition) {
  struct Started {
    std::string owner;
    int64_t end = 0;
    int64_t tokens = 0;
  };
  for (uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](size_t n) { return static_cast<size_t>(random() % n); };
    FairQueue queue;
    Definition definition;
    std::vector<Started> started;
    uint64_t id = 0;
    for (int step = 0; step < 400; ++step) {
      const std::string owner(1, static_cast<char>('a' + below(5)));
      const auto tokens = static_cast<int64_t>(1 + below(50));
      const size_t what = below(12);
      if (what < 4) {
        const auto priority = static_cast<int32_t>(below(3));
        definition.Push({++id, owner, priority, tokens});
        queue.Push(id, owner, priority, tokens);
      } else if (what == 4 && !definition.empty()) {
        const uint64_t leaves = definition.At(below(definition.size())).id;
        EXPECT_TRUE(queue.Remove(leaves));
        definition.Remove(leaves);
      } else if (what == 5) {
        queue.Charge(owner, tokens);
        definition.Charge(owner, tokens);
      } else if (what == 6 && !started.empty()) {
        const Started& s = started[below(started.size())];
        queue.GiveBack(s.owner, s.end, s.tokens);
        definition.GiveBack(s.owner, s.end, s.tokens);
      } else {
        std::set<std::string> cannot;
        std::vector<std::string> shown;
        for (const char c : {'a', 'b', 'c'}) {
          if (below(4) == 0) cannot.insert(std::string(1, c));
        }
        std::map<uint64_t, Definition::Item> items;
        for (size_t i = 0; i < definition.size(); ++i) {
          items[definition.At(i).id] = definition.At(i);
        }
        const std::optional<uint64_t> found = queue.Find([&](uint64_t request) {
          const std::string& of = items.at(request).owner;
          if (shown.empty() || shown.back() != of) shown.push_back(of);
          if (!cannot.contains(of)) return Visit::kTake;
          return below(2) == 0 ? Visit::kCannot : Visit::kNextOwner;
        });
        const bool all_cannot = std::ranges::all_of(
            items, [&](const auto& item) { return cannot.contains(item.second.owner); });
        ASSERT_EQ(found.has_value(), !all_cannot);
        if (!found) {
          definition.Shown(shown, cannot);
          continue;
        }
        const Definition::Item item = items.at(*found);
        definition.ExpectFirst(item, cannot);
        definition.Shown(shown, cannot);
        started.push_back({item.owner, queue.Pop(*found), item.tokens});
        ASSERT_EQ(definition.Pop(item), started.back().end);
      }
      ASSERT_EQ(queue.size(), static_cast<int64_t>(definition.size()));
      if (testing::Test::HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace tvq
