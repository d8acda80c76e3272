// A GPU that fails in the midst of a call, at every operation of it: the call ends with a status
// that names the device, its session is where it was, what is stored can be read, and nothing more
// is accepted.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/registry/registry.h"
#include "models/runtime/tokenizer/tokenizer.h"
#include "server/sessions/durable/disk/tier_disk.h"
#include "server/sessions/store/store.h"
#include "tests/conformance/oracle.h"
#include "tests/conformance/test_weights.h"
#include "tests/kernels/cuda/stand_in/breakdown.h"
#include "tests/kernels/test_devices.h"
#include "tests/server/engine/recording_sink.h"

namespace tvq::conformance {
namespace {

using cuda_stand_in::Notice;
using ::testing::HasSubstr;

Shape SmallShape() {
  return {.vocab = 13,
          .d_model = 6,
          .d_k = 4,
          .d_v = 4,
          .n_code = 3,
          .n_layer = 1,
          .block_len = 4,
          .mem_len = 3,
          .prefill_chunk = 4};
}

// A server without its network: engine and sessions, stored in a directory of its own.
class SmallServer {
 public:
  explicit SmallServer(const std::string& dir) {
    std::filesystem::remove_all(dir);
    LoadOptions options;
    options.device = MakeTestDevice("cuda_stand_in", "forwards");
    std::string json = SmallShape().Json();
    json.replace(json.find("bytes"), 5, "ids");  // a tokenizer for few ids
    const Config config = Config::Parse(json, "test").value();
    TestWeights weights(1);
    std::shared_ptr<Model> model =
        BuildModel(config, weights, LoadTokenizer("", config.Common().value()).value(), options)
            .value();
    engine_ = Engine::Create({{.name = "m", .model = model}},
                             {.max_num_seqs = 2, .state_memory_bytes = int64_t{1} << 20})
                  .value();
    store_ = SessionStore::Open(engine_.get(), {.host_bytes = 1 << 20},
                                DiskTier::Open(dir, /*budget=*/0).value())
                 .value();
  }

  Engine& engine() { return *engine_; }
  SessionStore& store() { return *store_; }

  std::string Create() { return store_->Create("", {.model = "m"}).value().record.id; }

  // A call on a session, as the service makes it.
  absl::Status Generate(const std::string& id, std::vector<int32_t> prompt, Durability durability) {
    auto lease = store_->Acquire({.id = id, .durability = durability});
    if (!lease.ok()) return lease.status();
    auto sink = std::make_shared<RecordingSink>();
    Request request{.model = "m", .prompt = std::move(prompt)};
    request.sink = sink;
    request.keep = true;
    request.sampling.max_tokens = 3;
    request.sampling.seed = 1;
    request.sampling.ignore_eos = true;
    request.start = (*lease)->Start();
    if (auto handle = engine_->Submit(std::move(request)); !handle.ok()) return handle.status();
    if (absl::Status outcome = sink->Wait(); !outcome.ok()) {
      EXPECT_FALSE(sink->TakeKept().has_value());
      return outcome;
    }
    return (*lease)->Commit(*sink->TakeKept(), "").status();
  }

  // The state in a session's snapshot; ahead of it come times that reading changes.
  absl::StatusOr<std::string> Export(const std::string& id) {
    auto stream = store_->Export({.id = id}, {});
    if (!stream.ok()) return stream.status();
    std::string bytes;
    while (true) {
      auto piece = (*stream)->Next(1 << 16);
      if (!piece.ok()) return piece.status();
      if (piece->empty()) return bytes.substr(bytes.find("TVQSTATE"));
      bytes += *piece;
    }
  }

 private:
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<SessionStore> store_;
};

class DeviceFailureTest : public testing::TestWithParam<Notice> {
 protected:
  ~DeviceFailureTest() override { cuda_stand_in::Repair(); }

  const std::string dir_ = testing::TempDir() + "/device_failure";
};

void ExpectNamesTheDevice(const absl::Status& status) {
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the device cuda (on the CPU, threads forwards, overlapping) has failed: "
                        "an illegal memory access was encountered"));
}

TEST_P(DeviceFailureTest, LeavesSessionsAsTheyWereWhereverItComes) {
  // An error that shows late is the harder one: that comes everywhere, the other at some places.
  const int64_t next = GetParam() == Notice::kAtOnce ? 5 : 1;
  int64_t failed = 0;
  for (bool reached = true; reached; failed += next) {
    SmallServer server(dir_);
    const std::string id = server.Create();
    ASSERT_TRUE(server.Generate(id, {1, 2, 3, 4, 5}, Durability::kDisk).ok());
    const std::string stored = server.Export(id).value();
    const int64_t version = server.store().Get("", id).value().record.version;

    cuda_stand_in::BreakDown(failed, GetParam());
    const absl::Status status = server.Generate(id, {6, 7}, Durability::kDisk);
    reached = !status.ok();
    if (reached) {
      ExpectNamesTheDevice(status);
      ExpectNamesTheDevice(server.engine().Health());
      EXPECT_FALSE(server.engine().stats().healthy);
      // Nothing new begins, in any session.
      ExpectNamesTheDevice(server.Generate(id, {8}, Durability::kMemory));
      ExpectNamesTheDevice(server.Generate(server.Create(), {8}, Durability::kMemory));
      // What the disk has is what it was.
      const SessionView view = server.store().Get("", id).value();
      EXPECT_EQ(view.record.version, version);
      EXPECT_EQ(view.record.persisted_version, version);
      const absl::StatusOr<std::string> exported = server.Export(id);
      ASSERT_TRUE(exported.ok()) << exported.status();
      EXPECT_TRUE(*exported == stored);
    }
    // It ends as on any other day, and a new process finds what was stored.
    server.engine().Drain(std::chrono::steady_clock::now() + std::chrono::seconds(10));
    server.store().Flush(std::chrono::steady_clock::now() + std::chrono::seconds(10));
    cuda_stand_in::Repair();
  }
  // As many operations as the call has: a prompt's chunk and steps, a dozen kernels each.
  EXPECT_GT(failed, 40);
}

// A session that was never stored is lost with the device, and whoever asks for it is told why.
TEST_P(DeviceFailureTest, SaysThatAStateWasOnTheDeviceAlone) {
  SmallServer server(dir_);
  const std::string id = server.Create();
  ASSERT_TRUE(server.Generate(id, {1, 2, 3}, Durability::kMemory).ok());
  cuda_stand_in::BreakDown(0, GetParam());
  ExpectNamesTheDevice(server.Export(id).status());
  ExpectNamesTheDevice(server.engine().Health());
  EXPECT_GT(server.store().Flush(std::chrono::steady_clock::now() + std::chrono::seconds(1)), 0);
  EXPECT_EQ(server.store().Get("", id).value().record.persisted_version, 0);
}

INSTANTIATE_TEST_SUITE_P(Notices, DeviceFailureTest,
                         testing::Values(Notice::kAtOnce, Notice::kWhenWaitedFor),
                         [](const auto& info) {
                           return info.param == Notice::kAtOnce ? "AtOnce" : "WhenWaitedFor";
                         });

}  // namespace
}  // namespace tvq::conformance
