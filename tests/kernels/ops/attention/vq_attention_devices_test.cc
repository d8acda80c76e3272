// Attention over codes: what holds between devices of one kind, and of one device alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/attention/vq_attention.h"
#include "tests/kernels/cuda/stand_in/runtime.h"
#include "tests/kernels/ops/attention/vq_sizes.h"
#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

// Sums of the copy's rows are of integers, however they are multiplied.
TEST(VqAttentionIsaTest, TheCopyIsSummedToTheSameBitsByBytesAndByWords) {
  const std::vector<std::string> isas = AvailableIsas();
  const auto available = [&](const char* isa) {
    return std::find(isas.begin(), isas.end(), isa) != isas.end();
  };
  bool compared = false;
  for (const auto& [words, bytes] :
       {std::pair{"avx2", "avx-vnni"}, std::pair{"avx512", "avx512-vnni"}}) {
    if (!available(words) || !available(bytes)) continue;
    compared = true;
    for (const VqSizes& c : kVqSizes) {
      const VqShape shape{c.kv_heads, c.codes, c.window, c.value, DType::kFloat32, VqRead::kInt8};
      const VqInputs inputs(shape, c.heads, c.tokens, 11);
      std::vector<std::vector<float>> outputs;
      for (const char* isa : {words, bytes}) {
        const auto device = MakeTestDevice("cpu", isa);
        OwnedState state(*device, shape);
        outputs.push_back(inputs.Decode(*device, state, 0, 0.05F));
      }
      EXPECT_EQ(outputs[0], outputs[1]) << bytes;
    }
  }
  if (!compared) GTEST_SKIP() << "no processor with both";
}

// Few sessions may be divided among blocks in another way than more of them, of one piece of
// columns or of two. What the largest batch took is enough for all others: steps are recorded from
// that on.
TEST(VqAttentionMemoryTest, ASmallerBatchTakesNoMoreThanALargerOne) {
  constexpr size_t kMost = 8;
  constexpr VqSizes kOnePiece{1, 1, 20, 40, 1500, 1}, kTwoPieces{1, 1, 20, 40, 1540, 1},
      kTwoHeads{2, 2, 20, 40, 1500, 1}, kShared{2, 1, 20, 40, 1500, 1};
  for (const VqSizes& c : {kOnePiece, kTwoPieces, kTwoHeads, kShared}) {
    for (const float skip_mass : {0.0F, 0.05F}) {
      const std::unique_ptr<Device> device = MakeTestDevice("cuda_stand_in", "forwards");
      const VqShape shape{c.kv_heads, c.codes, c.window, c.value, DType::kFloat32};
      const auto allocations = [&](size_t rows) {
        const VqInputs inputs(shape, c.heads, static_cast<int64_t>(rows), 12);
        const int64_t before = cuda_stand_in::CountsOfRuntime().allocations;
        DecodeStep(*device, shape, c.heads, std::vector<VqState>(rows), std::vector<int64_t>(rows),
                   inputs.code_scores, inputs.position_scores, inputs.codes, inputs.v, skip_mass);
        return cuda_stand_in::CountsOfRuntime().allocations - before;
      };
      const int64_t first = allocations(kMost), of_arguments = allocations(kMost);
      EXPECT_GT(first, of_arguments);
      for (size_t rows = kMost; rows > 0; --rows) {
        EXPECT_EQ(allocations(rows), of_arguments)
            << rows << " sessions, values of " << c.value << ", heads " << c.heads;
      }
    }
  }
}

// Factors that may be rounded are where that gains anything.
TEST(VqAttentionIsaTest, FactorsAreRoundedForPairsAlone) {
  const VqSizes c{1, 1, 20, 30, 20, 100};
  const VqInputs inputs({c.kv_heads, c.codes, c.window, c.value, DType::kBFloat16}, c.heads,
                        c.tokens, 14);
  for (const std::string& isa : AvailableIsas()) {
    const auto device = MakeTestDevice("cpu", isa);
    std::vector<std::vector<float>> outputs;
    for (const DType factors : kFactors) {
      OwnedState state(*device, inputs.shape);
      outputs.emplace_back(static_cast<size_t>(inputs.OutSize()));
      inputs.Prefill(*device, state, 0, c.tokens, outputs.back(), factors);
    }
    EXPECT_EQ(outputs[0] != outputs[1], isa == "avx512-bf16") << isa;
  }
}

}  // namespace
}  // namespace tvq
