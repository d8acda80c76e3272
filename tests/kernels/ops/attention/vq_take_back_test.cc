// Rows of one state in a decode step, and taking them back.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/kernels/ops/attention/vq_state.h"
#include "tests/kernels/ops/op_testing.h"

namespace tvq {
namespace {

struct TakeBackCase {
  DeviceCase device;
  DType dtype;
  VqRead read;
  float skip_mass;
};

std::string NameOf(const TakeBackCase& c) {
  return NameOf(c.device) + "_" + Name(c.dtype) + (c.read == VqRead::kInt8 ? "_copy" : "") +
         (c.skip_mass > 0 ? "_skip" : "");
}
void PrintTo(const TakeBackCase& c, std::ostream* out) { *out << NameOf(c); }

class VqTakeBackTest : public testing::TestWithParam<TakeBackCase> {
 protected:
  // Windows that fill, turn and turn again inside of a run of rows; shared and own heads; values
  // that fill no vector, and more columns than a scale has.
  std::vector<std::pair<int64_t, VqShape>> Shapes() const {
    const auto [device, dtype, read, skip_mass] = GetParam();
    return {{3, {3, 5, 4, 7, dtype, read}},
            {4, {2, 3, 1, 70, dtype, read}},
            {2, {1, 9, 11, 130, dtype, read}}};
  }
};

// Steps of rows of several states: `rows` are (state, token of its inputs).
class Sessions {
 public:
  Sessions(Device& device, const VqShape& shape, int64_t heads, float skip_mass)
      : device_(device), shape_(shape), heads_(heads), skip_mass_(skip_mass) {
    for (uint32_t i = 0; i < kSessions; ++i) {
      inputs_.emplace_back(shape, heads, kTokens, 20 + i);
      states_.emplace_back(device, shape);
      positions_.push_back(0);
    }
  }

  static constexpr uint32_t kSessions = 3;
  static constexpr int64_t kTokens = 40;

  // Feeds the next tokens of the sessions, a row each, in this order; outputs and what was read.
  std::pair<std::vector<float>, StepReads> Step(const std::vector<size_t>& sessions) {
    std::vector<VqState> views;
    std::vector<int64_t> positions;
    std::vector<float> code_scores, position_scores, v;
    std::vector<int32_t> codes;
    const auto append = [](auto& to, auto from) { to.insert(to.end(), from.begin(), from.end()); };
    undo_.clear();
    for (const size_t i : sessions) {
      const VqInputs& in = inputs_[i];
      const int64_t at = positions_[i]++;
      undo_.emplace_back(device_, std::vector<uint8_t>(static_cast<size_t>(VqUndoBytes(shape_))));
      views.push_back(View(i, undo_.size() - 1));
      positions.push_back(at);
      append(code_scores, VqInputs::Rows(in.code_scores, heads_ * shape_.codes, at, 1));
      append(position_scores, VqInputs::Rows(in.position_scores, heads_ * shape_.window, at, 1));
      append(codes, VqInputs::Rows(in.codes, shape_.kv_heads, at, 1));
      append(v, VqInputs::Rows(in.v, shape_.kv_heads * shape_.value, at, 1));
    }
    StepReads reads;
    auto out = DecodeStep(device_, shape_, heads_, views, positions, code_scores, position_scores,
                          codes, v, skip_mass_, &reads);
    return {std::move(out), std::move(reads)};
  }

  // Of the row with this index in the last step, a session's last one.
  void TakeBack(size_t session, size_t row) {
    const VqTakeBackArgs args{shape_, View(session, row), --positions_[session]};
    ASSERT_TRUE(VqTakeBack(device_, args).ok());
  }

  const OwnedState& state(size_t i) const { return states_[i]; }

 private:
  VqState View(size_t session, size_t row) const {
    VqState view = states_[session].View();
    view.undo = undo_[row].data();
    return view;
  }

  Device& device_;
  const VqShape shape_;
  const int64_t heads_;
  const float skip_mass_;
  std::vector<VqInputs> inputs_;
  std::vector<OwnedState> states_;
  std::vector<int64_t> positions_;
  std::vector<DeviceArray<uint8_t>> undo_;
};

TEST_P(VqTakeBackTest, RowsOfOneStateHaveTheBitsOfStepsOfTheirOwn) {
  const auto device = MakeTestDevice(GetParam().device);
  for (const auto& [heads, shape] : Shapes()) {
    Sessions together(*device, shape, heads, GetParam().skip_mass);
    Sessions alone(*device, shape, heads, GetParam().skip_mass);
    const std::vector<std::vector<size_t>> steps{
        {0, 0, 0, 1, 2, 2}, {1, 1, 1, 1, 1}, {2, 0, 0, 0, 0, 0, 1, 1}, {0}, {1, 2, 2, 2, 2, 2}};
    for (int round = 0; round < 2; ++round) {
      for (const std::vector<size_t>& step : steps) {
        const auto [out, reads] = together.Step(step);
        std::vector<float> want, mass;
        std::vector<int32_t> row_reads;
        for (const size_t session : step) {
          const auto [row, of_row] = alone.Step({session});
          want.insert(want.end(), row.begin(), row.end());
          mass.insert(mass.end(), of_row.skipped_mass.begin(), of_row.skipped_mass.end());
          row_reads.insert(row_reads.end(), of_row.row_reads.begin(), of_row.row_reads.end());
        }
        ASSERT_EQ(out, want);
        ASSERT_EQ(reads.skipped_mass, mass);
        ASSERT_EQ(reads.row_reads, row_reads);
        for (size_t i = 0; i < Sessions::kSessions; ++i) {
          ASSERT_TRUE(together.state(i) == alone.state(i)) << "state " << i;
        }
      }
    }
  }
}

TEST_P(VqTakeBackTest, WhatWasTakenBackLeavesNoTrace) {
  const auto device = MakeTestDevice(GetParam().device);
  for (const auto& [heads, shape] : Shapes()) {
    Sessions got(*device, shape, heads, GetParam().skip_mass);
    Sessions want(*device, shape, heads, GetParam().skip_mass);
    // A row behind a number of drafts, of which from all down to none are taken back, up to where
    // the widest window has turned twice.
    for (size_t turn = 0; turn < 12; ++turn) {
      const size_t drafts = turn % 4, taken = turn % 3 % (drafts + 1);
      std::vector<size_t> rows(1 + drafts, 0);
      rows.push_back(1);
      const auto [all, all_reads] = got.Step(rows);
      for (size_t i = 0; i < taken; ++i) got.TakeBack(0, drafts - i);
      rows.erase(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(taken));
      want.Step(rows);
      for (size_t i = 0; i < Sessions::kSessions; ++i) {
        ASSERT_TRUE(got.state(i) == want.state(i)) << "turn " << turn << ", state " << i;
      }
    }
  }
}

TEST_P(VqTakeBackTest, RefusesWhatWasNotKept) {
  const auto device = MakeTestDevice(GetParam().device);
  const VqShape shape = Shapes().front().second;
  const OwnedState state(*device, shape);
  const absl::Status status = VqTakeBack(*device, {shape, state.View(), 3});
  EXPECT_EQ(status.message(), "VqTakeBack: state has no undo, expected what the decode step kept");
}

TEST_P(VqTakeBackTest, RowsOfOneStateMustBeConsecutive) {
  const auto device = MakeTestDevice(GetParam().device);
  const VqShape shape{1, 2, 3, 4, GetParam().dtype, GetParam().read};
  OwnedState state(*device, shape);
  const std::vector<VqState> states{state.View(), state.View()};
  const std::vector<int64_t> positions{0, 2};
  std::vector<float> out(8), scores(6), v(8);
  std::vector<int32_t> codes(2);
  const absl::Status status =
      VqDecodeAttention(*device, {.shape = shape,
                                  .states = {states.data(), {2}},
                                  .positions = {positions.data(), {2}},
                                  .code_scores = {scores.data(), {2, 1, 2}},
                                  .position_scores = {scores.data(), {2, 1, 3}},
                                  .codes = {codes.data(), {2, 1}},
                                  .v = {v.data(), {2, 1, 4}},
                                  .out = {out.data(), {2, 1, 4}}});
  EXPECT_EQ(status.message(),
            "VqDecodeAttention: positions[1] is 2, expected 1: the row before it is of the same "
            "state");
}

std::vector<TakeBackCase> TakeBackCases() {
  std::vector<DeviceCase> devices{{"reference", ""}};
  for (const std::string& isa : AvailableIsas()) devices.push_back({"cpu", isa});
  std::vector<TakeBackCase> cases;
  for (const DeviceCase& device : devices) {
    for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
      for (const VqRead read : {VqRead::kExact, VqRead::kInt8}) {
        for (const float skip_mass : {0.0F, 0.05F})
          cases.push_back({device, dtype, read, skip_mass});
      }
    }
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Devices, VqTakeBackTest, testing::ValuesIn(TakeBackCases()),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace tvq
