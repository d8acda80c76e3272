// Requests that start although others came before them, for which there is no room yet.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/server/engine/harness.h"

namespace tvq {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// One endless request runs, and a second does not fit beside it.
struct Blocked {
  std::string name;
  FakeOptions fake;
  EngineOptions options;
  std::string prompt;
  SamplingParams sampling;
};

std::vector<Blocked> Kinds() {
  EngineOptions options = SmallOptions();
  options.max_num_queued_tokens = 16;
  SamplingParams samples = Endless();
  samples.n = 9;
  return {{"prompt tokens", {}, options, "123456789", Endless()},
          {"bytes", {}, {.max_num_seqs = 16, .state_memory_bytes = 16'000}, "x", samples},
          {"sequences", {}, {.max_num_seqs = 16, .max_num_admitted_seqs = 16}, "x", samples}};
}

TEST(EnginePassingTest, OneThatAnEndlessStreamKeepsFromStartingHoldsUpNobody) {
  for (const Blocked& kind : Kinds()) {
    // The server itself; one key or address; one each.
    for (const std::vector<std::string>& owners :
         {std::vector<std::string>{"", "", ""}, {"a", "a", "a"}, {"a", "b", "c"}}) {
      SCOPED_TRACE(kind.name + " " + owners[1]);
      Harness h(kind.fake, kind.options);
      const auto submit = [&](size_t who, const auto& sink, const std::string& prompt,
                              const SamplingParams& sampling, SteadyTime deadline) {
        Request request = Ask(sink, prompt, sampling);
        request.owner = owners[who];
        request.deadline = deadline;
        return *h.engine->Submit(std::move(request));
      };
      auto runs = NewSink(), waits = NewSink();
      const auto first = submit(0, runs, kind.prompt, kind.sampling, SteadyTime::max());
      runs->WaitDeltas(1);
      const auto second = submit(1, waits, kind.prompt, kind.sampling, SteadyTime::max());
      for (int i = 0; i < 20; ++i) {
        auto quick = NewSink();
        submit(2, quick, "y", {.max_tokens = 3}, DeadlineIn(seconds(30)));
        ASSERT_TRUE(quick->Wait().ok()) << i;
      }
      EXPECT_FALSE(waits->started());
      h.engine->Cancel(first);
      waits->WaitDeltas(1);
      EXPECT_TRUE(waits->started()) << "it keeps its turn";
      h.engine->Cancel(second);
      EXPECT_TRUE(absl::IsCancelled(runs->Wait()));
      EXPECT_TRUE(absl::IsCancelled(waits->Wait()));
    }
  }
}

// More of them than there is room for at any time, so that a sample's room is taken as soon as it
// is free.
TEST(EnginePassingTest, ALargeRequestAmongSmallOnesHasItsTurn) {
  Harness h({}, {.max_num_seqs = 16, .state_memory_bytes = 4000});
  std::atomic<bool> stop = false;
  std::atomic<int64_t> small = 0;
  std::vector<std::thread> threads;
  threads.reserve(8);
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] {
      while (!stop) {
        // They end one after the other.
        Generate(*h.engine, "small", {.ignore_eos = true, .max_tokens = 50 + 7 * i});
        ++small;
      }
    });
  }
  while (small < 50) std::this_thread::yield();
  for (int i = 0; i < 5; ++i) {
    auto sink = NewSink();
    Request request = Ask(sink, "large", {.ignore_eos = true, .max_tokens = 20, .n = 4});
    request.deadline = DeadlineIn(seconds(60));
    ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
    EXPECT_TRUE(sink->Wait().ok());
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// Nothing computes, so nothing wakes the loop but the time.
TEST(EnginePassingTest, WhatRoomWasKeptFromIsLookedAtAgain) {
  Harness h({}, {.max_num_seqs = 16, .state_memory_bytes = 4000});
  // The large one comes while the first two run, and waits when the third, whose reader is behind,
  // starts in the place of the second.
  auto first = NewSink(), second = NewSink(), third = NewSink();
  for (const auto& sink : {first, third}) {
    sink->on_delta = [s = sink.get()](const Delta&) { s->wants_more = false; };
  }
  std::vector<RequestHandle> handles;
  handles.push_back(*h.engine->Submit(Ask(first, "1", Endless())));
  SamplingParams two = Endless();
  two.n = 2;
  second->wants_more = false;
  handles.push_back(*h.engine->Submit(Ask(second, "2", two)));
  first->WaitDeltas(1);
  second->WaitStarted();
  auto large = NewSink(), small = NewSink();
  SamplingParams three = Endless();
  three.n = 3;
  handles.push_back(*h.engine->Submit(Ask(large, "l", three)));
  std::this_thread::sleep_for(milliseconds(100));
  handles.push_back(*h.engine->Submit(Ask(third, "3", Endless())));
  third->WaitStarted();
  h.engine->Cancel(handles[1]);  // now the large one waits for the third alone, which counts as
                                 // young for as long again
  Request request = Ask(small, "s", {.max_tokens = 3});
  request.deadline = DeadlineIn(seconds(30));
  ASSERT_TRUE(h.engine->Submit(std::move(request)).ok());
  EXPECT_TRUE(small->Wait().ok()) << "the third counts as endless soon";
  EXPECT_FALSE(large->started());
  for (const RequestHandle handle : handles) h.engine->Cancel(handle);
  for (const auto& sink : {first, second, third, large}) {
    EXPECT_TRUE(absl::IsCancelled(sink->Wait()));
  }
}

}  // namespace
}  // namespace tvq
