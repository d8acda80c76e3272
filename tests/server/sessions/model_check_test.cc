// Random operations on a store, each compared with a plain table of what every session must hold:
// with commits, aborts, forks, marks, failures of the durable tier, crashes, and with so little
// room that states move all the time.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <thread>

#include "models/runtime/registry/registry.h"
#include "tests/models/runtime/stack/stacks.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"
#include "tests/server/sessions/tiny_model.h"

namespace tvq {
namespace {

// What a session holds at one version.
struct Held {
  std::string text;
  std::map<std::string, std::string> marks;
};

struct Reference {
  int64_t version = 1;
  std::map<int64_t, Held> history;  // by version
  Held& now() { return history[version]; }
};

class Check {
 public:
  // Texts are up to `scale` times 160 characters.
  Check(StoreHarnessBase& h, uint64_t seed, int scale = 1) : h_(h), scale_(scale), random_(seed) {
    disk_->fail = [this](std::string_view operation) {
      // Reading never fails: a call that only looks has nothing to fall back to.
      if (!failing_ || operation == "Get") return absl::OkStatus();
      // The calls' own operations count apart from those of the store's threads, whose number
      // depends on how fast the machine is: so much of both fails on any.
      const bool of_call = std::this_thread::get_id() == caller_;
      const bool fails = of_call ? ++of_calls_ % 31 == 0 : ++of_store_ % 149 == 0;
      return fails ? absl::UnavailableError("injected") : absl::OkStatus();
    };
    Restart();
  }

  void Run(int steps) {
    for (int step = 0; step < steps && !::testing::Test::HasFailure(); ++step) {
      SCOPED_TRACE(step);
      Step();
      if (h_.engine->budget().sealed_bytes() > 0) ++shared;
    }
    failing_ = false;
    for (auto& [id, reference] : sessions_) h_.ExpectHolds({.id = id}, reference.now().text);
    for (auto& [id, reference] : sessions_) EXPECT_TRUE(h_.store->Delete({.id = id}).ok());
    const StateBudget& budget = h_.engine->budget();
    EXPECT_TRUE(Eventually([&] { return budget.used() == 0; })) << budget.used();
    EXPECT_EQ(budget.sealed_bytes(), 0);
  }

  int64_t commits = 0;
  int64_t restarts = 0;
  int64_t failed = 0;
  int64_t shared = 0;  // steps after which states on the device shared pages

 private:
  int Draw(int count) { return static_cast<int>(random_() % static_cast<uint64_t>(count)); }
  std::string Name() { return std::string(1, static_cast<char>('m' + Draw(3))); }
  Durability AnyDurability() { return Draw(5) == 0 ? Durability::kDisk : Durability::kMemory; }

  void Step() {
    const int kind = Draw(1000);
    if (kind < 3) return Crash();
    if (kind % 10 == 0) h_.store->loader().UnloadParked();
    if (kind < 8) {
      failing_ = Draw(2) != 0;
      return;
    }
    if (sessions_.empty() || (kind < 80 && sessions_.size() < 40)) return Create();
    auto at = std::next(sessions_.begin(), Draw(static_cast<int>(sessions_.size())));
    const std::string id = at->first;
    Reference& reference = at->second;
    if (kind < 400) return Append(id, reference);
    if (kind < 450) return GoBack(id, reference);
    if (kind < 530) return Fork(id, reference);
    if (kind < 610) return Mark(id, reference);
    if (kind < 640) return Unmark(id, reference);
    if (kind < 710) return Rewind(id, reference);
    if (kind < 760) return Save(id, reference);
    if (kind < 820 || std::ssize(reference.now().text) > scale_ * 150) {
      return Delete(id);
    }
    if (kind < 870) return Transfer(id, reference);
    h_.ExpectHolds({.id = id}, reference.now().text);
  }

  // Whether the call succeeded; otherwise only the tier may have been the reason.
  bool Done(const absl::Status& status) {
    if (status.ok()) return true;
    ++failed;
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    return false;
  }

  void Committed(Reference& reference, const SessionView& view, Held next) {
    ++commits;
    ++reference.version;
    reference.history[reference.version] = std::move(next);
    EXPECT_EQ(view.record.version, reference.version);
    EXPECT_EQ(view.record.position, static_cast<int64_t>(reference.now().text.size()));
    EXPECT_EQ(view.record.marks.size(), reference.now().marks.size());
    EXPECT_LE(view.record.persisted_version, reference.version);
  }

  void Create() {
    const auto view = h_.store->Create("", {.durability = AnyDurability()});
    if (!Done(view.status())) return;
    sessions_[view->record.id].history[1] = {};
  }

  void Append(const std::string& id, Reference& reference) {
    std::string text;
    for (int i = 1 + Draw(scale_ * 12); i > 0; --i) text += static_cast<char>('a' + Draw(11));
    auto lease = h_.store->Acquire({.id = id, .durability = AnyDurability()});
    if (!Done(lease.status())) return;
    auto next = h_.Compute((*lease)->Start(), text, /*pending=*/Draw(2) == 0);
    ASSERT_TRUE(next.ok()) << next.status();
    if (Draw(8) == 0) return;  // the call is given up
    const auto view = (*lease)->Commit(*std::move(next), "");
    if (!Done(view.status())) return;
    Held held = reference.now();
    held.text += text;
    Committed(reference, *view, std::move(held));
  }

  // A call that goes on from the past: of now, of a mark, or with none of it.
  void GoBack(const std::string& id, Reference& reference) {
    Held held = reference.now();
    std::vector<std::string> places{"", held.text};
    for (const auto& [name, text] : held.marks) places.push_back(text);
    std::string text = places[static_cast<size_t>(Draw(static_cast<int>(places.size())))];
    text.resize(static_cast<size_t>(Draw(static_cast<int>(text.size()) + 1)));
    for (int i = 1 + Draw(scale_ * 12); i > 0; --i) text += static_cast<char>('a' + Draw(11));
    const std::vector<int32_t> tokens = h_.TokensOf(text);
    auto lease = h_.store->Acquire({.id = id, .durability = AnyDurability()});
    if (!Done(lease.status())) return;
    const auto back = (*lease)->GoBack(tokens);
    ASSERT_TRUE(back.ok()) << back.status();
    for (const std::string& place : places) {
      const auto end = std::ranges::mismatch(place, text).in1;
      const int64_t same = end - place.begin();
      if (end == place.end() || h_.model->StatesCut()) {
        EXPECT_GE(*back, std::min(same, std::ssize(text) - (end == place.end() ? 0 : 1)));
      }
    }
    ASSERT_LE(*back, std::ssize(text));
    const std::string rest = text.substr(static_cast<size_t>(*back));
    auto next = h_.Compute((*lease)->Start(), rest, /*pending=*/!rest.empty() && Draw(2) == 0);
    ASSERT_TRUE(next.ok()) << next.status();
    if (Draw(8) == 0) return;  // the call is given up
    const auto view = (*lease)->Commit(*std::move(next), "");
    if (!Done(view.status())) return;
    held.text = text;
    Committed(reference, *view, std::move(held));
  }

  void Fork(const std::string& id, Reference& reference) {
    if (sessions_.size() > 60) return;
    const Held held = reference.now();
    const std::string mark = Draw(2) == 0 && !held.marks.empty() ? held.marks.begin()->first : "";
    const auto views = h_.store->Fork({.id = id, .durability = AnyDurability()},
                                      {.count = 1 + Draw(3), .mark = mark});
    if (!Done(views.status())) return;
    for (const SessionView& view : *views) {
      sessions_[view.record.id].history[1].text = mark.empty() ? held.text : held.marks.at(mark);
    }
  }

  void Mark(const std::string& id, Reference& reference) {
    const std::string name = Name();
    const auto view = h_.store->Mark({.id = id, .durability = AnyDurability()}, name);
    if (!Done(view.status())) return;
    Held held = reference.now();
    held.marks[name] = held.text;
    Committed(reference, *view, std::move(held));
  }

  void Unmark(const std::string& id, Reference& reference) {
    const std::string name = Name();
    const auto view = h_.store->Unmark({.id = id, .durability = AnyDurability()}, name);
    Held held = reference.now();
    if (held.marks.erase(name) == 0) {
      EXPECT_TRUE(absl::IsNotFound(view.status())) << view.status();
    } else if (Done(view.status())) {
      Committed(reference, *view, std::move(held));
    }
  }

  void Rewind(const std::string& id, Reference& reference) {
    const std::string name = Name();
    const auto view = h_.store->Rewind({.id = id, .durability = AnyDurability()}, name);
    Held held = reference.now();
    if (!held.marks.contains(name)) {
      EXPECT_TRUE(absl::IsNotFound(view.status())) << view.status();
    } else if (Done(view.status())) {
      held.text = held.marks[name];
      Committed(reference, *view, std::move(held));
    }
  }

  void Save(const std::string& id, Reference& reference) {
    const auto view = h_.store->Save({.id = id});
    if (!Done(view.status())) return;
    EXPECT_EQ(view->record.persisted_version, reference.version);
  }

  void Delete(const std::string& id) {
    if (Done(h_.store->Delete({.id = id}))) sessions_.erase(id);
  }

  void Transfer(const std::string& id, Reference& reference) {
    const auto stream = h_.store->Export({.id = id}, {});
    if (!Done(stream.status())) return;
    const auto bytes = (*stream)->Next((*stream)->total_bytes());
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    auto upload = h_.store->NewUpload();
    ASSERT_TRUE(upload->Add({bytes->data(), bytes->size()}).ok());
    const auto view = h_.store->Import("", {.durability = AnyDurability()}, std::move(upload));
    if (!Done(view.status())) return;
    sessions_[view->record.id].history[1].text = reference.now().text;
  }

  // The process is killed: what was stored is there, at the version that was stored, and only that.
  void Crash() {
    ++restarts;
    h_.store.reset();
    for (auto at = sessions_.begin(); at != sessions_.end();) {
      const auto stored = disk_->sessions.find(at->first);
      if (stored == disk_->sessions.end() || !stored->second.whole) {
        at = sessions_.erase(at);
        continue;
      }
      at->second.version = stored->second.record.version;
      EXPECT_EQ(at->second.history.count(at->second.version), 1u);
      ++at;
    }
    Restart();
    for (auto& [id, reference] : sessions_) {
      const auto view = h_.store->Get("", id);
      ASSERT_TRUE(view.ok()) << view.status();
      EXPECT_EQ(view->record.version, reference.version);
      EXPECT_EQ(view->record.marks.size(), reference.now().marks.size());
    }
  }

  void Restart() {
    const bool before = failing_.exchange(false);
    h_.Start(std::make_unique<MemoryTier>(disk_));
    failing_ = before;
  }

  StoreHarnessBase& h_;
  const int scale_;
  std::mt19937_64 random_;
  const std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> failing_ = false;  // whether operations of the tier do, now and then
  int64_t of_calls_ = 0;               // operations of the tier
  std::atomic<int64_t> of_store_ = 0;
  std::shared_ptr<MemoryDisk> disk_ = std::make_shared<MemoryDisk>();
  std::map<std::string, Reference> sessions_;
};

// TVQ_MODEL_CHECK_STEPS makes it longer.
int Steps(int usual) {
  const char* wanted = std::getenv("TVQ_MODEL_CHECK_STEPS");
  return wanted != nullptr ? std::atoi(wanted) : usual;
}

TEST(ModelCheckTest, HoldsWhatItMustHold) {
  const int64_t place = StoreHarness().store->PlaceBytes(0);
  for (uint64_t seed : {1, 2}) {
    SCOPED_TRACE(seed);
    StoreHarness h({.host_bytes = 8 * place}, {}, {.state_memory_bytes = 6000});
    Check check(h, seed);
    check.Run(Steps(6'000));
    EXPECT_GT(check.commits, 1000);
    EXPECT_GT(check.restarts, 10);
    EXPECT_GT(check.failed, 10);
    EXPECT_GT(h.store->stats().restores, 0);
  }
}

struct OwnsEngine {
  OwnsEngine(std::shared_ptr<Model> served, int64_t states)
      : model(std::move(served)),
        engine(
            Engine::Create({{"real", model}}, {.state_memory_bytes = states * model->StateBytes(1)})
                .value()) {}

  std::shared_ptr<Model> model;
  std::unique_ptr<Engine> engine;
};

// The same over a real network's states, all of their bits; so many of one token have room on the
// device, twice as many in host memory.
struct RealHarness : OwnsEngine, StoreHarnessBase {
  explicit RealHarness(std::shared_ptr<Model> served, int64_t states = 8)
      : OwnsEngine(std::move(served), states),
        StoreHarnessBase(engine.get(), model.get(),
                         {.host_bytes = 2 * states * model->StateBytes(1)}) {}
  ~RealHarness() override { store.reset(); }
  std::vector<int32_t> TokensOf(std::string_view text) const override {
    std::vector<int32_t> tokens;
    for (const char c : text) tokens.push_back((c - 'a') % fixtures::kTinyVocab);
    return tokens;
  }
  // Bits depend on how tokens were split into calls, so always feed them one by one.
  int64_t FeedAtOnce() const override { return 1; }
  using OwnsEngine::engine;
  using OwnsEngine::model;
};

TEST(ModelCheckTest, KeepsARealNetworksBits) {
  RealHarness h(fixtures::TinyModel());
  Check check(h, 3);
  check.Run(Steps(1'500));
  EXPECT_GT(check.commits, 100);
}

TEST(ModelCheckTest, CutsStatesThatAreOnlyPages) {
  RealHarness h(fixtures::TinySoftmax());
  ASSERT_TRUE(h.model->StatesCut());
  Check check(h, 5);
  check.Run(Steps(1'500));
  EXPECT_GT(check.commits, 100);
}

TEST(ModelCheckTest, KeepsTheBitsOfPagesThatStatesShare) {
  RealHarness h(fixtures::TinySoftmax(), 10);
  Check check(h, 6, /*scale=*/3);
  check.Run(Steps(2'500));
  EXPECT_GT(check.commits, 150);
  EXPECT_GT(check.shared, 20);
}

TEST(ModelCheckTest, KeepsTheBitsOfAnyLayers) {
  for (const AnyStack& stack : kStacks) {
    SCOPED_TRACE(stack.name);
    RealHarness h(stack.make(MakeDevice("cpu", 1).value()));
    Check check(h, 4);
    check.Run(Steps(1'000));
    EXPECT_GT(check.commits, 60);
  }
}

}  // namespace
}  // namespace tvq
