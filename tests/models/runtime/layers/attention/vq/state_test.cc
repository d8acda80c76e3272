#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/layers/attention/vq/parts.h"
#include "models/runtime/stack/session_state.h"
#include "tests/models/runtime/layers/attention/vq/shape_case.h"
#include "tests/models/runtime/stack/state_content.h"
#include "tests/models/synthetic_state.h"

namespace tvq {
namespace {

template <typename T>
std::map<std::string, std::vector<T>> Sections(const State& state, const std::string& suffix) {
  std::map<std::string, std::vector<T>> found;
  EXPECT_TRUE(state
                  .VisitSections([&](const SectionInfo& section, std::span<const std::byte> bytes) {
                    if (!section.name.ends_with(suffix)) return absl::OkStatus();
                    EXPECT_EQ(section.element_bytes, static_cast<int64_t>(sizeof(T)));
                    std::vector<T>& values = found[section.name];
                    const size_t old = values.size();
                    values.resize(old + bytes.size() / sizeof(T));
                    if (!bytes.empty()) {
                      std::memcpy(values.data() + old, bytes.data(), bytes.size());
                    }
                    return absl::OkStatus();
                  })
                  .ok());
  return found;
}

class VqStateTest : public testing::TestWithParam<ShapeCase> {
 protected:
  static DType dtype() { return GetParam().dtype; }
  static VqRead read() { return GetParam().read; }
  std::unique_ptr<SessionState> New() { return SessionState::Create(*device_, layout_).value(); }

  void Synthesize(SessionState& state, int64_t position, uint64_t seed) {
    const absl::Status s = tvq::Synthesize(state, layout_.Sections(position), position, seed);
    ASSERT_TRUE(s.ok()) << s;
  }

  const VqParts parts_{ShapeOf(GetParam())};
  const StateLayout layout_{{{"layers.0.", &parts_}, {"layers.1.", &parts_}}, 0};
  const std::unique_ptr<Device> device_ = MakeDevice("cpu", 1).value();
};

// docs/state.md: per layer G (S V (4 + 4) + S 8 + W 4 + W V value bytes), each part rounded up to
// 64 bytes; a read copy has (S + W) (V + 4 V/64) bytes in four parts more.
TEST_P(VqStateTest, BytesFollowTheFormula) {
  const auto value_bytes = static_cast<int64_t>(SizeOf(dtype()));
  auto up = [](int64_t n) { return (n + 63) / 64 * 64; };
  const int64_t copy = up(2 * 3 * 5) + up(2 * 3 * 4) + up(2 * 5 * 5) + up(2 * 5 * 4);
  const int64_t layer = (read() == VqRead::kInt8 ? copy : 0) + 2 * up(2 * 3 * 5 * 4) +
                        up(2 * 3 * 8) + up(2 * 5 * 4) + up(2 * 5 * 5 * value_bytes);
  EXPECT_EQ(layout_.Bytes(1), 2 * layer);
  EXPECT_EQ(layout_.Bytes(1'000'000), 2 * layer);
  EXPECT_EQ(New()->bytes(), 2 * layer);
}

TEST_P(VqStateTest, PartsDoNotOverlap) {
  const std::unique_ptr<SessionState> state = New();
  ASSERT_TRUE(state->Extend(1).ok());
  const VqShape& s = parts_.shape();
  const auto rows = static_cast<size_t>(s.kv_heads * s.codes);
  for (size_t l = 0; l < 2; ++l) {
    const VqState layer = parts_.At(state->Parts(l));
    auto mark = [](void* part, size_t bytes) {
      auto* p = static_cast<unsigned char*>(part);
      for (size_t i = 0; i < bytes; ++i) {
        EXPECT_EQ(p[i], 0) << "two parts share a byte";
        p[i] = 1;
      }
    };
    mark(layer.sum, rows * 5 * 4);
    mark(layer.carry, rows * 5 * 4);
    mark(layer.count, rows * 8);
    mark(layer.window_code, static_cast<size_t>(s.kv_heads * s.window) * 4);
    mark(layer.window_value, static_cast<size_t>(s.kv_heads * s.window) * 5 * SizeOf(dtype()));
    if (read() == VqRead::kExact) continue;
    mark(layer.mean, rows * 5);
    mark(layer.mean_scale, rows * 4);
    mark(layer.recent, static_cast<size_t>(s.kv_heads * s.window) * 5);
    mark(layer.recent_scale, static_cast<size_t>(s.kv_heads * s.window) * 4);
  }
}

TEST_P(VqStateTest, SynthesizedCountsAndWindowAddUpToThePosition) {
  const std::unique_ptr<SessionState> state = New();
  for (int64_t position : {0, 3, 5, 6, 1000}) {
    Synthesize(*state, position, 7);
    for (const auto& [name, counts] : Sections<int64_t>(*state, "acc_count")) {
      const int64_t window = position < 5 ? position : 5;
      for (int head = 0; head < 2; ++head) {
        const auto begin = counts.begin() + head * 3;
        EXPECT_EQ(std::accumulate(begin, begin + 3, int64_t{0}) + window, position) << name;
      }
    }
    for (const auto& [name, codes] : Sections<int32_t>(*state, "win_code")) {
      for (int32_t code : codes) EXPECT_TRUE(code >= 0 && code < 3) << name;
    }
  }
}

// The canonical form lists the window from the oldest position to the newest, wherever the ring
// turned.
TEST_P(VqStateTest, SectionsUnrollTheRing) {
  const std::unique_ptr<SessionState> state = New();
  ASSERT_TRUE(state->Extend(1).ok());
  state->Advance(7);  // positions 2..6 are recent, in slots 2, 3, 4, 0, 1
  for (size_t l = 0; l < 2; ++l) {
    for (int64_t slot = 0; slot < 10; ++slot) {
      parts_.At(state->Parts(l)).window_code[slot] =
          static_cast<int32_t>(100 * static_cast<int64_t>(l) + slot);
    }
  }
  const auto codes = Sections<int32_t>(*state, "win_code");
  EXPECT_EQ(codes.at("layers.0.win_code"), (std::vector<int32_t>{2, 3, 4, 0, 1, 7, 8, 9, 5, 6}));
  EXPECT_EQ(codes.at("layers.1.win_code"),
            (std::vector<int32_t>{102, 103, 104, 100, 101, 107, 108, 109, 105, 106}));
}

TEST_P(VqStateTest, CopyIsOfTheSameModelOnly) {
  const std::unique_ptr<SessionState> a = New(), b = New();
  Synthesize(*a, 50, 1);
  ASSERT_TRUE(b->CopyFrom(*a).ok());
  EXPECT_EQ(b->position(), 50);
  EXPECT_EQ(Sections<float>(*a, "acc_sum"), Sections<float>(*b, "acc_sum"));
  const StateLayout other_layout({{"layers.0.", &parts_}, {"layers.1.", &parts_}}, 0);
  const auto other = SessionState::Create(*device_, other_layout).value();
  EXPECT_EQ(other->CopyFrom(*a).code(), absl::StatusCode::kFailedPrecondition);
}

// Memory that other states have left is handed out again; nobody can tell.
TEST_P(VqStateTest, ShowsNothingOfAnEarlierState) {
  // Blocks that the device keeps: 8 MB or more.
  const VqParts large(ShapeOf(GetParam(), 1 << 15));
  const StateLayout layout({{"layers.0.", &large}, {"layers.1.", &large}}, 0);
  const auto create = [&] { return SessionState::Create(*device_, layout).value(); };
  const auto synthesize = [&](SessionState& state, int64_t position, uint64_t seed) {
    ASSERT_TRUE(tvq::Synthesize(state, layout.Sections(position), position, seed).ok());
  };
  const auto expect_blank = [](const SessionState& state) {
    EXPECT_EQ(state.position(), 0);
    EXPECT_TRUE(state
                    .VisitSections([](const SectionInfo& section, std::span<const std::byte> b) {
                      EXPECT_TRUE(std::all_of(b.begin(), b.end(), [](std::byte v) {
                        return v == std::byte{0};
                      })) << section.name;
                      return absl::OkStatus();
                    })
                    .ok());
  };
  const std::unique_ptr<SessionState> other = create();
  synthesize(*other, 50, 1);
  synthesize(*create(), 70, 2);

  const std::unique_ptr<SessionState> state = create();
  expect_blank(*state);
  ASSERT_TRUE(other->CopyFrom(*state).ok());
  expect_blank(*other);
  for (SessionState* written : {state.get(), other.get()}) {
    ASSERT_TRUE(written->Extend(1).ok());
    expect_blank(*written);
    const std::byte* memory = written->Parts(0).block;
    EXPECT_TRUE(std::all_of(memory, memory + layout.block_bytes(),
                            [](std::byte v) { return v == std::byte{0}; }));
  }
  synthesize(*state, 50, 1);
  ASSERT_TRUE(state->Reset().ok());
  expect_blank(*state);
}

TEST_P(VqStateTest, APositionThatNoStateHasLeavesItBlank) {
  const Content blank = ContentOf(*New());
  for (const int64_t position : {int64_t{-1}, (int64_t{1} << 62) + 1}) {
    const std::unique_ptr<SessionState> state = New();
    Synthesize(*state, 50, 1);
    const absl::Status status = LoadContent(*state, position, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(),
              absl::StrCat("position is ", position, ", must be 0 to 4611686018427387904"));
    EXPECT_EQ(state->position(), 0);
    EXPECT_EQ(ContentOf(*state), blank);
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, VqStateTest, ShapeCases(), ShapeCaseName);

}  // namespace
}  // namespace tvq
