// Prompts that begin alike, through the engine: the model counts what it is fed.
#ifndef TVQ_TESTS_SERVER_SESSIONS_PLACEMENT_PREFIX_HARNESS_H_
#define TVQ_TESTS_SERVER_SESSIONS_PLACEMENT_PREFIX_HARNESS_H_

#include <gtest/gtest.h>

#include <latch>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/begin_id.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {

inline constexpr int64_t kChunk = 8;  // FakeOptions

struct PrefixHarness : StoreHarness {
  explicit PrefixHarness(int64_t prefix_bytes = 100'000, std::vector<std::string> shared = {},
                         FakeOptions fake = {})
      : StoreHarness({.host_bytes = 300'000,
                      .prefix_bytes = prefix_bytes,
                      .shared_prompts = std::move(shared)},
                     fake) {
    Begin();
  }

  // The session that Settle uses; for each store.
  void Begin() {
    session = Create({.ttl = absl::Hours(10'000)});
    EXPECT_TRUE(Append({.id = session}, "some").ok());
  }

  struct Answer {
    RecordingSink::Sample sample;
    Usage usage;
    int64_t prefilled = 0;
    std::vector<TokenEvent> prompt;
  };

  Answer Ask(const std::string& owner, const std::string& prompt, SamplingParams sampling = {},
             bool use = true) {
    Settle();
    auto sink = std::make_shared<RecordingSink>();
    Request request = tvq::Ask(sink, prompt, std::move(sampling));
    AddBosToken(model->info(), &request.prompt);  // as the RPC layer does
    request.owner = owner;
    request.sampling.seed = 7;
    if (use) store->UsePrefixes(&request);
    const int64_t before = harness.model->prefilled_tokens;
    const auto handle = engine->Submit(std::move(request));
    EXPECT_TRUE(handle.ok()) << handle.status();
    EXPECT_TRUE(sink->Wait().ok());
    return {sink->sample(), sink->usage(), harness.model->prefilled_tokens - before,
            sink->prompt()};
  }

  // Prefixes are kept by the two threads that fill states. When both are in tasks that wait for
  // each other, all that was to be done before is done.
  void Settle() {
    const auto lease = store->Acquire({.id = session});
    const auto start = (*lease)->Start();
    const auto together = std::make_shared<std::latch>(3);
    for (int i = 0; i < 2; ++i) {
      start->source->Fill({.state = *model->NewState()},
                          [together](absl::StatusOr<HeldState>) { together->arrive_and_wait(); });
    }
    together->arrive_and_wait();
  }

  std::string session;
};

// Two chunks, and what makes a prompt not end on a boundary.
inline const std::string kLong = "abcdefghijklmnopqrstu";

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_SESSIONS_PLACEMENT_PREFIX_HARNESS_H_
