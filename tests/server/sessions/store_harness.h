// A session store over an engine with fake models, and computing calls made by hand.
#ifndef TVQ_TESTS_SERVER_SESSIONS_STORE_HARNESS_H_
#define TVQ_TESTS_SERVER_SESSIONS_STORE_HARNESS_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "server/sessions/store/store.h"
#include "tests/server/engine/harness.h"

namespace tvq {

// Wall time that a test sets.
class FakeClock {
 public:
  absl::Time Now() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }
  void Advance(absl::Duration by) {
    const std::lock_guard lock(mutex_);
    now_ += by;
  }

 private:
  mutable std::mutex mutex_;
  absl::Time now_ = absl::FromUnixSeconds(1'700'000'000);
};

// Waits for what happens in threads of the store.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 10'000; ++i) {
    if (condition()) return true;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return false;
}

// Over any model.
struct StoreHarnessBase {
  StoreHarnessBase(Engine* engine, Model* model, SessionOptions options)
      : engine(engine), model(model), options(std::move(options)) {
    Start(nullptr);
  }
  virtual ~StoreHarnessBase() = default;

  // Tokens for text, one a character.
  virtual std::vector<int32_t> TokensOf(std::string_view text) const { return Ids(text); }

  virtual int64_t FeedAtOnce() const { return model->info().config.prefill_chunk; }

  // As a process does that was started, or killed and started again: a store writes nothing of its
  // own accord when it ends.
  void Start(std::unique_ptr<DurableTier> durable,
             std::unique_ptr<DurableTier> prefixes = nullptr) {
    store.reset();
    auto opened = Store::Open(
        engine, options, std::move(durable), [this] { return clock.Now(); }, std::move(prefixes));
    ASSERT_TRUE(opened.ok()) << opened.status();
    store = *std::move(opened);
  }

  std::string Create(const CreateOptions& create = {}, const std::string& owner = "") {
    auto session = store->Create(owner, create);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? session->record.id : "";
  }

  // A working copy of what the call starts from, or a blank state, for `more` tokens.
  absl::StatusOr<HeldState> Working(const std::optional<StartPoint>& start, size_t more = 1) {
    const int64_t tokens = (start ? start->position : 0) + static_cast<int64_t>(more);
    const int64_t bytes = model->StateBytes(std::max<int64_t>(tokens, 1));
    // As the engine does, waits until there is room.
    auto share = engine->budget().TryReserve(bytes);
    for (int i = 0; i < 20'000 && !share; ++i) {
      engine->budget().ReportShortage(bytes);
      absl::SleepFor(absl::Milliseconds(1));
      share = engine->budget().TryReserve(bytes);
    }
    if (!share) return absl::ResourceExhaustedError("no room for a working copy");
    auto state = model->NewState();
    if (!state.ok()) return state.status();
    HeldState blank{*std::move(share), *std::move(state)};
    if (!start || start->source == nullptr) return blank;
    std::promise<absl::StatusOr<HeldState>> filled;
    start->source->Fill(std::move(blank),
                        [&](absl::StatusOr<HeldState> held) { filled.set_value(std::move(held)); });
    return filled.get_future().get();
  }

  // What a request leaves that was given `text`, and sampled its last token if `pending`.
  absl::StatusOr<Continuation> Compute(const std::optional<StartPoint>& start,
                                       std::string_view text, bool pending = false) {
    auto held = Working(start, (start ? start->pending.size() : 0) + TokensOf(text).size());
    if (!held.ok()) return held.status();
    Continuation next{.held = *std::move(held), .tokens = TokensOf(text)};
    std::vector<int32_t> fed = start ? start->pending : std::vector<int32_t>();
    fed.insert(fed.end(), next.tokens.begin(), next.tokens.end());
    if (pending) {
      next.pending = {fed.back()};
      fed.pop_back();
    } else {
      next.logits.assign(static_cast<size_t>(model->info().config.vocab_size),
                         static_cast<float>(fed.size()));
    }
    Feed(*next.held.state, fed);
    next.held.share.Shrink(next.held.OwnBytes());
    if (start && start->answer_end) next.answer_end.emplace(*start->answer_end).Append(text);
    return next;
  }

  void Feed(State& state, std::span<const int32_t> tokens) {
    const std::lock_guard lock(feeding);  // a model is used by one thread at a time
    while (!tokens.empty()) {
      const auto count = static_cast<size_t>(
          NextChunk(state.position(), static_cast<int64_t>(tokens.size()), FeedAtOnce()));
      const PrefillChunk chunk{.state = &state, .tokens = tokens.first(count)};
      EXPECT_TRUE(model->Prefill(chunk, nullptr).ok());
      tokens = tokens.subspan(count);
    }
  }

  // One call that appends `text`.
  absl::StatusOr<SessionView> Append(const SessionCall& call, std::string_view text,
                                     bool pending = false) {
    auto lease = store->Acquire(call);
    if (!lease.ok()) return lease.status();
    auto next = Compute((*lease)->Start(), text, pending);
    if (!next.ok()) return next.status();
    return (*lease)->Commit(*std::move(next), "");
  }

  // One call that generates `text`.
  absl::StatusOr<SessionView> Answer(const SessionCall& call, std::string_view text) {
    auto lease = store->Acquire(call);
    if (!lease.ok()) return lease.status();
    auto next = Compute((*lease)->Start(), text, /*pending=*/true);
    if (!next.ok()) return next.status();
    next->answer_end = AnswerEnd{.tail = std::string(text)};
    return (*lease)->Commit(*std::move(next), "");
  }

  // How the session's answer ended, as its next call is told.
  std::optional<AnswerEnd> EndOf(const SessionCall& call) {
    const auto lease = store->Acquire({.owner = call.owner, .id = call.id});
    EXPECT_TRUE(lease.ok()) << lease.status();
    if (!lease.ok()) return std::nullopt;
    const auto start = (*lease)->Start();
    const auto& end = (*lease)->record().answer_end;
    EXPECT_EQ(start ? start->answer_end : std::nullopt, end);
    return end;
  }

  // The bytes of a state.
  static std::string Image(const State& state) {
    std::string image;
    const auto status =
        state.VisitSections([&](const SectionInfo& section, std::span<const std::byte> bytes) {
          image += section.name;
          image.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
          return absl::OkStatus();
        });
    EXPECT_TRUE(status.ok()) << status;
    return image;
  }

  std::string ImageOf(std::string_view text) {
    auto state = model->NewState();
    EXPECT_TRUE(state.ok()) << state.status();
    Feed(**state, TokensOf(text));
    return Image(**state);
  }

  // Checks that the session holds exactly `text`: its state bit by bit, and its transcript.
  void ExpectHolds(const SessionCall& call, std::string_view text) {
    const auto lease = store->Acquire({.owner = call.owner, .id = call.id});
    ASSERT_TRUE(lease.ok()) << lease.status();
    const auto start = (*lease)->Start();
    EXPECT_EQ((*lease)->record().position, static_cast<int64_t>(text.size()));
    if (text.empty()) {
      EXPECT_FALSE(start.has_value());
      return;
    }
    ASSERT_TRUE(start.has_value());
    const auto held = Working(start);
    ASSERT_TRUE(held.ok()) << held.status();
    Feed(*held->state, start->pending);
    EXPECT_TRUE(Image(*held->state) == ImageOf(text)) << "other bits than those of " << text;
    const auto transcript = store->Transcript(call.owner, call.id);
    ASSERT_TRUE(transcript.ok()) << transcript.status();
    EXPECT_EQ(transcript->view.record.version, (*lease)->record().version);
    if ((*lease)->record().has_transcript) {
      EXPECT_EQ(transcript->tokens.Ids(), TokensOf(text));
    } else {
      EXPECT_TRUE(transcript->tokens.Ids().empty());
    }
  }

  Engine* const engine;
  Model* const model;
  FakeClock clock;
  SessionOptions options;
  std::mutex feeding;
  std::unique_ptr<Store> store;
};

struct OwnsHarness {
  Harness harness;
};

struct StoreHarness : OwnsHarness, StoreHarnessBase {
  explicit StoreHarness(SessionOptions options = {.host_bytes = 1'000'000}, FakeOptions fake = {},
                        EngineOptions engine_options = SmallOptions())
      : OwnsHarness{Harness(fake, engine_options)},
        StoreHarnessBase(harness.engine.get(), harness.model.get(), std::move(options)) {}
  // The store goes before the engine.
  ~StoreHarness() override { store.reset(); }
};

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_STORE_HARNESS_H_
