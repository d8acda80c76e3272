#include "models/runtime/layers/attention/vq/parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "kernels/numbers/bfloat16.h"
#include "models/runtime/stack/session_state.h"
#include "tests/models/runtime/layers/attention/vq/shape_case.h"
#include "tests/models/runtime/stack/state_content.h"
#include "tests/models/synthetic_state.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

class VqPartsTest : public testing::TestWithParam<ShapeCase> {
 protected:
  std::unique_ptr<SessionState> New() { return SessionState::Create(*device_, layout_).value(); }

  std::unique_ptr<SessionState> SynthesizedState(int64_t position, uint64_t seed = 5) {
    std::unique_ptr<SessionState> state = New();
    EXPECT_TRUE(Synthesize(*state, layout_.Sections(position), position, seed).ok());
    return state;
  }
  Content Synthesized(int64_t position) { return ContentOf(*SynthesizedState(position)); }

  // The message of a load into a state that held something else; afterwards it is as after Reset.
  std::string Problem(int64_t position, const Content& content) {
    const std::unique_ptr<SessionState> state = SynthesizedState(70, 6);
    const absl::Status status = LoadContent(*state, position, content);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    ExpectBlank(*state);
    EXPECT_TRUE(state->Extend(1).ok());
    ExpectZeroMemory(*state);
    return std::string(status.message());
  }

  static void ExpectBlank(const SessionState& state) {
    EXPECT_EQ(state.position(), 0);
    const auto zero = [](std::byte b) { return b == std::byte{0}; };
    EXPECT_TRUE(state
                    .VisitSections([&](const SectionInfo& section, std::span<const std::byte> b) {
                      EXPECT_TRUE(std::all_of(b.begin(), b.end(), zero)) << section.name;
                      return absl::OkStatus();
                    })
                    .ok());
  }

  void ExpectZeroMemory(const SessionState& state) const {
    const std::byte* memory = state.Parts(0).block;
    for (int64_t i = 0; i < layout_.block_bytes(); ++i) ASSERT_EQ(memory[i], std::byte{0});
  }

  const VqParts parts_{ShapeOf(GetParam())};
  const StateLayout layout_{{{"layers.0.", &parts_}, {"layers.1.", &parts_}}, 0};
  const std::unique_ptr<Device> device_ = MakeDevice("cpu", 1).value();
};

TEST_P(VqPartsTest, LoadGivesTheSameMemory) {
  for (int64_t position : {0, 3, 5, 6, 9, 1000}) {
    const auto original = SynthesizedState(position), loaded = SynthesizedState(77, 6);
    const absl::Status status = LoadContent(*loaded, position, Synthesized(position));
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(loaded->position(), position);
    const auto bytes = static_cast<size_t>(layout_.block_bytes());
    EXPECT_EQ(std::memcmp(original->Parts(0).block, loaded->Parts(0).block, bytes), 0);
  }
}

TEST_P(VqPartsTest, SectionsSayWhatVisitGives) {
  for (int64_t position : {0, 2, 5, 100}) {
    const std::unique_ptr<SessionState> state = SynthesizedState(position);
    const std::vector<SectionInfo> sections = state->Sections();
    ASSERT_EQ(sections.size(), 10U);
    size_t next = 0;
    ASSERT_TRUE(state
                    ->VisitSections([&](const SectionInfo& section, auto bytes) {
                      EXPECT_EQ(section.name, sections[next].name);
                      EXPECT_EQ(section.bytes, sections[next].bytes);
                      EXPECT_EQ(section.element_bytes, sections[next].element_bytes);
                      EXPECT_EQ(static_cast<size_t>(section.bytes), bytes.size());
                      ++next;
                      return absl::OkStatus();
                    })
                    .ok());
    EXPECT_EQ(next, sections.size());
  }
}

TEST_P(VqPartsTest, RefusesCodesOutsideTheCodebook) {
  Content content = Synthesized(9);
  Set<int32_t>(content, "layers.1.win_code", 7, 3);
  EXPECT_EQ(Problem(9, content), "layers.1.win_code[7] is 3, must be 0 to 2");
  Set<int32_t>(content, "layers.1.win_code", 7, -1);
  EXPECT_EQ(Problem(9, content), "layers.1.win_code[7] is -1, must be 0 to 2");
}

TEST_P(VqPartsTest, RefusesWhatIsNotFinite) {
  for (const char* section : {"layers.0.acc_sum", "layers.1.acc_carry"}) {
    for (float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
      Content content = Synthesized(100);
      Set(content, section, 29, bad);
      EXPECT_THAT(Problem(100, content), HasSubstr(std::string(section) + "[29] is "));
      EXPECT_THAT(Problem(100, content), HasSubstr("must be finite"));
    }
  }
  Content content = Synthesized(100);
  const float infinity = -std::numeric_limits<float>::infinity();
  if (GetParam().dtype == DType::kFloat32) {
    Set(content, "layers.0.win_value", 49, infinity);
  } else {
    Set(content, "layers.0.win_value", 49, ToBFloat16(infinity));
  }
  EXPECT_EQ(Problem(100, content), "layers.0.win_value[49] is -inf, must be finite");
}

TEST_P(VqPartsTest, RefusesCountsThatDoNotAddUp) {
  // Six positions retired: 2, 2, 2 for each head.
  Content content = Synthesized(11);
  Set<int64_t>(content, "layers.0.acc_count", 4, 3);
  EXPECT_THAT(Problem(11, content), HasSubstr("layers.0.acc_count[5] is 2, must be 0 to 1"));
  Set<int64_t>(content, "layers.0.acc_count", 4, 1);
  EXPECT_EQ(
      Problem(11, content),
      "layers.0.acc_count[3] and the 2 after it add up to 5, must be 6: the position less the "
      "window");
  Set<int64_t>(content, "layers.0.acc_count", 4, -2);
  EXPECT_THAT(Problem(11, content), HasSubstr("layers.0.acc_count[4] is -2, must be 0 to 4"));
  // Sums that come out right only where integers wrap.
  Set<int64_t>(content, "layers.0.acc_count", 4, std::numeric_limits<int64_t>::max());
  EXPECT_THAT(Problem(11, content), HasSubstr("layers.0.acc_count[4] is 9223372036854775807"));
  // Another position than the counts'.
  EXPECT_THAT(Problem(12, Synthesized(11)), HasSubstr("layers.0.acc_count[0] and the 2 after it"));
}

TEST_P(VqPartsTest, RefusesValuesInRowsThatNothingRetiredTo) {
  // One position retired, to code 0 of each head.
  for (const char* section : {"layers.1.acc_sum", "layers.1.acc_carry"}) {
    Content content = Synthesized(6);
    Set(content, section, 14, 0.25F);
    EXPECT_EQ(Problem(6, content), std::string(section) + "[14] is 0.25, must be 0: its count is");
  }
}

TEST_P(VqPartsTest, RefusesImpossiblePositions) {
  const std::unique_ptr<SessionState> state = New();
  for (int64_t position : {int64_t{-1}, std::numeric_limits<int64_t>::max()}) {
    const absl::Status status = LoadContent(*state, position, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("position is "));
  }
}

TEST_P(VqPartsTest, PassesOnWhatTheReaderSays) {
  const std::unique_ptr<SessionState> state = SynthesizedState(50, 1);
  int sections = 0;
  const absl::Status status = state->Load(9, [&](const SectionInfo&, std::span<std::byte> out) {
    std::fill(out.begin(), out.end(), std::byte{0});
    return ++sections == 3 ? absl::DataLossError("torn") : absl::OkStatus();
  });
  EXPECT_EQ(status, absl::DataLossError("torn"));
  ExpectBlank(*state);
}

INSTANTIATE_TEST_SUITE_P(Shapes, VqPartsTest, ShapeCases(), ShapeCaseName);

}  // namespace
}  // namespace tvq
