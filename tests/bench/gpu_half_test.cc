// What of tvq-bench only a GPU takes, where kernels run on the CPU: checks, ceilings on memory that
// is not the host's, times of ops, the rate of products. Fields, never times.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/registry/registry.h"
#include "tests/bench/benches.h"
#include "tests/bench/profile.h"
#include "tests/bench/sessions.h"
#include "tests/bench/validate.h"
#include "tests/kernels/cuda/stand_in/make_device.h"

namespace tvq::bench {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Key;
using testing::Pair;

Subject Tiny(DType dtype, const CudaOptions& cuda = {}) {
  Subject subject{.name = "tiny", .config = ScaledDown(PresetConfig("tiny").value())};
  // As small as the checks let it be: fibers are slow.
  subject.config.common.prefill_chunk = 16;
  subject.config.d_model = 24;
  subject.config.d_k = 8;
  subject.config.d_v = 16;
  subject.config.n_code = 8;
  subject.config.block_len = subject.config.mem_len = 8;
  subject.device = MakeCudaStandIn("forwards", cuda);
  subject.tf32 = cuda.tf32;
  subject.model = BuildRandom(subject.config, subject.device, dtype, {}).value();
  return subject;
}

Options Short() {
  Options options;
  options.batches = {1, 3};
  options.contexts = {0, 1000};
  options.rounds = 1;
  options.seconds = 0;
  options.ceiling_megabytes = 1;
  options.prompt_tokens = 20;
  options.matrix_size = 64;
  return options;
}

TEST(GpuHalfTest, DecodesPastItsChecks) {
  Subject subject = Tiny(DType::kBFloat16);
  Json report;
  ASSERT_TRUE(ValidateInto(subject, report).ok()) << report.dump(2);
  const absl::Status status = BenchDecode(subject, Short(), report);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(report["ceiling"], "copies");
  EXPECT_FALSE(report.contains("session_bytes")) << "resident memory says nothing of a GPU's";
  ASSERT_EQ(report["cases"].size(), 4U);
  for (const Json& c : report["cases"]) {
    EXPECT_GT(c["percent_of_ceiling"]["median"], 0) << c;
    EXPECT_EQ(c["ceiling_1_thread"]["median"], 0) << c;
  }
}

TEST(GpuHalfTest, AProfiledStepHasItsOps) {
  Subject subject = Tiny(DType::kBFloat16);
  TimeEveryOp(*subject.device);
  TimeEveryOp(*subject.device);  // which changes nothing
  Options options = Short();
  options.batches = {2};
  options.contexts = {1000};
  options.profile = true;
  Json report;
  const absl::Status status = BenchDecode(subject, options, report);
  ASSERT_TRUE(status.ok()) << status;
  const Json& c = report["cases"][0];
  for (const char* op : {"embedding", "qkvg_projection", "vq_scores", "vq_decode_attention",
                         "gated_output", "linear", "sample"}) {
    ASSERT_TRUE(c["ms_per_op"].contains(op)) << op;
    EXPECT_GT(c["ms_per_op"][op], 0) << op;
  }
  EXPECT_GT(c["speed_per_op"]["vq_decode_attention"]["percent_of_ceiling"], 0);
  EXPECT_GT(c["ms_median"], 0);
}

// Of codes that are turned, the scores are an op of their own.
TEST(GpuHalfTest, AProfileHasTurnedScores) {
  const std::shared_ptr<Device> device = MakeCudaStandIn("forwards");
  LoadOptions load;
  load.device = device;
  const std::unique_ptr<Model> model =
      LoadModel("tests/golden/families/vq_rerope_gated_multi_query", load).value();
  TimeEveryOp(*device);
  const auto calls = [] {
    std::map<std::string, int64_t> calls;
    const std::vector<OpTime> times = TakeOpTimes().value();
    for (const OpTime& time : times) calls[time.op] = time.calls;
    return calls;
  };
  const std::unique_ptr<State> state = model->NewState().value();
  Logits logits = model->NewLogits(1).value();
  const std::vector<int32_t> prompt = PromptTokens(3, 61);
  ASSERT_TRUE(FeedPrompt(*model, *state, prompt, logits).ok());
  EXPECT_THAT(calls(), AllOf(Contains(Pair("turned_prefill_scores", 2)),
                             Contains(Pair("vq_prefill_attention", 2)), Contains(Key("linear"))));
  const DecodeRow row{state.get(), 1, 0};
  ASSERT_TRUE(model->Decode({&row, 1}, &logits).ok());
  EXPECT_THAT(calls(), AllOf(Contains(Pair("turned_decode_scores", 2)),
                             Contains(Pair("vq_decode_attention", 2)), Contains(Key("linear"))));
}

TEST(GpuHalfTest, ComparesPromptsWithTheRateOfProducts) {
  Subject subject = Tiny(DType::kInt8);
  Json report;
  const absl::Status status = BenchPrefill(subject, Short(), report);
  ASSERT_TRUE(status.ok()) << status;
  for (const Json& c : report["cases"]) {
    EXPECT_GT(c["matrix_gigaflops"], 0) << c;
    EXPECT_GT(c["percent_of_matrix_rate"], 0) << c;
  }
}

// Factors that are cut move log-probabilities by more than float32 may, and by less than the bound
// for them.
TEST(GpuHalfTest, Tf32HasABoundOfItsOwn) {
  const auto prefill_check = [](bool tf32) {
    Subject subject = Tiny(DType::kFloat32, {.tf32 = tf32});
    return Validate(subject).value()[1];
  };
  const Check exact = prefill_check(false), cut = prefill_check(true);
  EXPECT_EQ(exact.what, "prefill = decode");
  EXPECT_TRUE(exact.ok && cut.ok) << exact.found << ", " << cut.found << " at most " << cut.bound;
  EXPECT_GT(cut.found, 10 * exact.found);
  EXPECT_GT(cut.bound, 10 * exact.bound);
}

}  // namespace
}  // namespace tvq::bench
