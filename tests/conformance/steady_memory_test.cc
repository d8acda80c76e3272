// On a device with memory of its own everything is allocated at the start: whatever requests and
// sessions do afterwards takes no more, and states move without a wait for all the device's work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/registry/registry.h"
#include "models/runtime/tokenizer/tokenizer.h"
#include "server/sessions/store/store.h"
#include "tests/conformance/oracle.h"
#include "tests/conformance/test_weights.h"
#include "tests/kernels/cuda/stand_in/runtime.h"
#include "tests/kernels/test_devices.h"
#include "tests/models/synthetic_state.h"
#include "tests/server/engine/recording_sink.h"

namespace tvq::conformance {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kChunk = 16;

// A kind of model, and what decode may read of its states: all of them exactly, or a part of their
// copy.
struct Kind {
  std::string name = "transformer_vq";
  StateReads reads;
};
const Kind kKinds[] = {{},
                       {.reads = {.int8 = true, .skip_mass = 0.1F}},
                       {.name = "linear_transformer"},
                       {.name = "softmax_transformer"}};

absl::StatusOr<std::shared_ptr<Model>> TryModel(std::shared_ptr<Device> device,
                                                const Kind& kind = {}) {
  const Shape shape{.kind = kind.name,
                    .vocab = 259,
                    .d_model = 6,
                    .d_k = 4,
                    .d_v = 40,
                    .n_code = 9,
                    .n_layer = 1,
                    .block_len = 4,
                    .mem_len = 3,
                    .prefill_chunk = kChunk};
  LoadOptions options;
  options.device = std::move(device);
  options.reads = kind.reads;
  const Config config = Config::Parse(shape.Json(), "test").value();
  TestWeights weights(1);
  return BuildModel(config, weights, LoadTokenizer("", config.Common().value()).value(), options);
}

std::shared_ptr<Model> SmallModel(std::shared_ptr<Device> device, const Kind& kind = {}) {
  return TryModel(std::move(device), kind).value();
}

class SteadyMemoryTest : public testing::Test {
 protected:
  ~SteadyMemoryTest() override { cuda_stand_in::SetMemoryOfGpu(size_t{16} << 30); }

  const std::shared_ptr<Device> device_ = MakeTestDevice("cuda_stand_in", "forwards");
};

Request Ask(std::shared_ptr<RecordingSink> sink, size_t prompt, int32_t first) {
  Request request{.model = "m", .prompt = std::vector<int32_t>(prompt)};
  std::iota(request.prompt.begin(), request.prompt.end(), first);
  request.sampling.max_tokens = 3;
  request.sampling.seed = 1;
  request.sampling.ignore_eos = true;
  request.sink = std::move(sink);
  return request;
}

// Every kind of call, more sessions than the device has room for, so that they come and go.
TEST_F(SteadyMemoryTest, NothingIsAllocatedAfterTheStart) {
  for (const Kind& kind : kKinds) {
    const std::shared_ptr<Model> model =
        SmallModel(MakeTestDevice("cuda_stand_in", "forwards"), kind);
    const auto engine =
        Engine::Create({{.name = "m", .model = model}},
                       {.max_num_seqs = 4, .state_memory_bytes = 6 * model->StateBytes(1)})
            .value();
    const auto store = SessionStore::Open(engine.get(), {.host_bytes = 1 << 20}, nullptr).value();
    const cuda_stand_in::RuntimeCounts before = cuda_stand_in::CountsOfRuntime();

    std::vector<std::string> ids;
    ids.reserve(8);
    for (int i = 0; i < 8; ++i) {
      ids.push_back(store->Create("", {.model = "m"}).value().record.id);
    }
    for (int round = 0; round < 3; ++round) {
      for (size_t i = 0; i < ids.size(); ++i) {
        auto lease = store->Acquire({.id = ids[i]}).value();
        auto sink = std::make_shared<RecordingSink>();
        Request request = Ask(sink, 1 + 13 * i % 40, 3);
        request.keep = true;
        request.start = lease->Start();
        ASSERT_TRUE(engine->Submit(std::move(request)).ok());
        ASSERT_TRUE(sink->Wait().ok());
        ASSERT_TRUE(lease->Commit(*sink->TakeKept(), "").ok());
      }
    }
    // All at once, with all that makes a request large.
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (int i = 0; i < 6; ++i) {
      Request request =
          Ask(sinks.emplace_back(std::make_shared<RecordingSink>()), 3 * kChunk, 3 + i);
      request.sampling.n = 1 + i % 3;
      request.sampling.logprobs = 20;
      request.sampling.repetition_penalty = 1.2F;
      request.sampling.prompt_logprobs = 20;
      for (int32_t id = 3; id < 259; ++id) {
        request.sampling.allowed_token_ids.push_back(id);
        request.sampling.logit_bias.push_back({id, 0.5F});
      }
      ASSERT_TRUE(engine->Submit(std::move(request)).ok());
    }
    for (const auto& sink : sinks) EXPECT_TRUE(sink->Wait().ok());

    const cuda_stand_in::RuntimeCounts after = cuda_stand_in::CountsOfRuntime();
    EXPECT_EQ(after.allocations, before.allocations);
    EXPECT_EQ(after.synchronisations, before.synchronisations);
    EXPECT_GT(after.graphs, before.graphs + 24 * 2);
    EXPECT_GT(store->stats().restores, 8) << "sessions did not come and go";
  }
}

// All that grows has grown before a step is written down: recordings keep nothing that was
// outgrown.
TEST_F(SteadyMemoryTest, RecordingsKeepNoMemoryOfTheirOwn) {
  const auto taken = [](const Kind& kind, bool record) {
    const std::shared_ptr<Device> device = MakeTestDevice("cuda_stand_in", "forwards");
    const std::shared_ptr<Model> model = SmallModel(device, kind);
    const int64_t before = *device->FreeMemory();
    EXPECT_TRUE(model->Prepare({.decode_rows = 8, .top_logprobs = 20, .record = record}).ok());
    return before - *device->FreeMemory();
  };
  for (const Kind& kind : kKinds) {
    EXPECT_GT(taken(kind, false), 0);
    EXPECT_EQ(taken(kind, true), taken(kind, false));
  }
}

TEST_F(SteadyMemoryTest, TooLittleMemoryIsNamedInBytes) {
  const std::shared_ptr<Model> model = SmallModel(device_);
  const auto create = [&](int64_t bytes) {
    return Engine::Create({{.name = "m", .model = model}},
                          {.max_num_seqs = 4, .state_memory_bytes = bytes})
        .status();
  };
  const absl::Status too_much = create(int64_t{1} << 40);
  EXPECT_EQ(too_much.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_much.message()),
              HasSubstr("--state-memory-bytes: is 1099511627776 bytes; beside weights and working "
                        "memory the device has "));
  const absl::Status too_little = create(10);
  EXPECT_EQ(too_little.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(too_little.message()), HasSubstr("the budget of all states is 10 bytes"));

  cuda_stand_in::SetMemoryOfGpu(0);
  const absl::StatusOr<Buffer> none = device_->Allocate(1000);
  EXPECT_EQ(none.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(none.status().message()),
              HasSubstr("cannot allocate 1000 bytes on the GPU, where 0 of 0 are free"));
}

// Weights, working memory and states in turn find too little: each time the start says how much was
// wanted and how much there was.
TEST_F(SteadyMemoryTest, AStartWithoutEnoughMemoryNamesTheSizes) {
  std::vector<std::string> messages;
  for (const size_t kib : {1, 300, 3000, 5500, 8000, 16000}) {
    cuda_stand_in::SetMemoryOfGpu(kib << 10);
    auto model = TryModel(device_);
    absl::Status status = model.status();
    if (status.ok()) {
      status = Engine::Create({{.name = "m", .model = *model}}, {.max_num_seqs = 4}).status();
    }
    if (status.ok()) break;
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    messages.emplace_back(status.message());
    EXPECT_THAT(messages.back(),
                testing::AnyOf(
                    testing::ContainsRegex("cannot allocate [0-9]+ bytes on the GPU, where [0-9]+ "
                                           "of [0-9]+ are free"),
                    testing::ContainsRegex("a state takes [0-9]+ bytes, the budget of all states "
                                           "is [0-9]+ bytes")));
  }
  EXPECT_GE(messages.size(), 3U);
  EXPECT_LT(messages.size(), 6U) << messages.back();
}

// Without a number the engine takes what the device has.
TEST_F(SteadyMemoryTest, StatesTakeWhatTheDeviceHas) {
  cuda_stand_in::SetMemoryOfGpu(size_t{64} << 20);
  const std::shared_ptr<Model> model = SmallModel(device_);
  const auto engine = Engine::Create({{.name = "m", .model = model}}, {.max_num_seqs = 4}).value();
  const int64_t budget = engine->budget().total();
  EXPECT_GT(budget, int64_t{40} << 20);
  EXPECT_LT(*device_->FreeMemory(), int64_t{4} << 20);
  // All of it can be used: as many states as the engine admits.
  std::vector<std::unique_ptr<State>> states;
  for (int64_t bytes = model->StateBytes(1); bytes <= budget; bytes += model->StateBytes(1)) {
    auto state = model->NewState();
    ASSERT_TRUE(state.ok()) << states.size() << ": " << state.status();
    states.push_back(*std::move(state));
  }
  EXPECT_GT(states.size(), 1000U);
}

// States that grow fill what was reserved to the last one that fits, whatever came and went there
// before: nothing but their pages lies between them.
TEST_F(SteadyMemoryTest, GrowingStatesTakeNoMoreThanWasQuoted) {
  const std::shared_ptr<Model> model = SmallModel(device_, {.name = "softmax_transformer"});
  constexpr int64_t kPositions = 1100;  // 5 pages
  constexpr size_t kStates = 4;
  const int64_t quoted = model->StateBytes(kPositions);
  ASSERT_TRUE(model->ReserveStates(quoted * static_cast<int64_t>(kStates)).ok());
  cuda_stand_in::SetMemoryOfGpu(0);
  std::vector<std::unique_ptr<State>> states(kStates);
  const auto grow = [&](size_t i, int64_t position) {
    if (states[i] == nullptr) states[i] = model->NewState().value();
    const absl::Status status = Synthesize(*model, *states[i], position, i + 1);
    ASSERT_TRUE(status.ok()) << "state " << i << " at " << position << ": " << status;
    EXPECT_EQ(states[i]->bytes(), model->StateBytes(position));
  };
  // They take pages in turns, so that what one leaves are gaps among the others'.
  for (const int64_t position : {1, 300, 600, 900}) {
    for (size_t i = 0; i < kStates; ++i) grow(i, position);
  }
  states[1].reset();
  grow(2, 200);
  grow(0, kPositions);
  for (size_t i = kStates; i-- > 0;) grow(i, kPositions);
  const absl::Status more = Synthesize(*model, *model->NewState().value(), 1, 1);
  EXPECT_EQ(more.code(), absl::StatusCode::kResourceExhausted) << more;
  // A copy finds the place of one that is gone.
  states[3].reset();
  states[3] = model->NewState().value();
  EXPECT_TRUE(states[3]->CopyFrom(*states[0]).ok());
}

// A place that was another session's holds nothing of it.
TEST_F(SteadyMemoryTest, APlaceIsGivenAgainWithoutItsPast) {
  const std::shared_ptr<Model> model = SmallModel(device_);
  ASSERT_TRUE(model->ReserveStates(model->StateBytes(1)).ok());
  const auto image = [](const State& state) {
    std::vector<std::byte> all;
    const absl::Status read =
        state.VisitSections([&](const SectionInfo&, std::span<const std::byte> bytes) {
          all.insert(all.end(), bytes.begin(), bytes.end());
          return absl::OkStatus();
        });
    EXPECT_TRUE(read.ok()) << read;
    return all;
  };
  Logits logits = model->NewLogits(1).value();
  std::vector<std::byte> fresh;
  for (int round = 0; round < 2; ++round) {
    const std::unique_ptr<State> state = model->NewState().value();
    const int64_t allocations = cuda_stand_in::CountsOfRuntime().allocations;
    for (int32_t token = 5; token < 12; ++token) {
      const DecodeRow row{.state = state.get(), .token = token, .logits_row = 0};
      ASSERT_TRUE(model->Decode({&row, 1}, &logits).ok());
    }
    if (round == 0) fresh = image(*state);
    EXPECT_EQ(image(*state), fresh);
    if (round == 0) continue;  // the model was not prepared: its first step allocates
    EXPECT_EQ(cuda_stand_in::CountsOfRuntime().allocations, allocations);
  }
}

}  // namespace
}  // namespace tvq::conformance
