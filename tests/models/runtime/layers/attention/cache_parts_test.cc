#include "models/runtime/layers/attention/cache_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "kernels/numbers/bfloat16.h"
#include "models/runtime/stack/session_state.h"
#include "tests/models/runtime/stack/state_content.h"
#include "tests/models/synthetic_state.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

class CachePartsTest : public testing::TestWithParam<DType> {
 protected:
  std::unique_ptr<SessionState> New() { return SessionState::Create(*device_, layout_).value(); }
  std::unique_ptr<SessionState> Synthesized(int64_t position, uint64_t seed = 5) {
    auto state = New();
    EXPECT_TRUE(Synthesize(*state, layout_.Sections(position), position, seed).ok());
    EXPECT_EQ(state->position(), position);
    return state;
  }
  int64_t Bytes(int64_t pages) const {
    // Every page has room for a list of the 4 pages of 1000 positions.
    return pages * (256 * 2 * 2 * (3 + 5) * static_cast<int64_t>(SizeOf(GetParam())) + 64);
  }

  // Two key/value heads, keys of three, values of five, two layers.
  const CacheParts parts_{{.kv_heads = 2, .key = 3, .value = 5, .dtype = GetParam()}};
  const StateLayout layout_{{{"layers.0.", &parts_}, {"layers.1.", &parts_}}, 1000};
  const std::unique_ptr<Device> device_ = MakeDevice("cpu", 1).value();
};

// docs/state.md
TEST_P(CachePartsTest, GrowsByPages) {
  const std::unique_ptr<SessionState> state = New();
  EXPECT_EQ(state->bytes(), 0);
  EXPECT_EQ(state->Parts(0).pages.count, 0);
  std::vector<const void*> listed;
  for (const auto& [tokens, pages] : {std::pair(1, 1), {255, 1}, {1, 2}, {600, 4}}) {
    ASSERT_TRUE(state->Extend(tokens).ok());
    state->Advance(tokens);
    EXPECT_EQ(state->bytes(), Bytes(pages));
    EXPECT_EQ(state->Parts(0).pages.count, pages);
    const void* const* const table = state->Parts(0).pages.pages;
    EXPECT_TRUE(std::equal(listed.begin(), listed.end(), table)) << "a page stays where it is";
    listed.assign(table, table + pages);
    EXPECT_EQ(std::set<const void*>(listed.begin(), listed.end()).size(), listed.size());
  }
  const absl::Status status = state->Extend(1000);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("at most 1000"));
  ASSERT_TRUE(state->Reset().ok());
  EXPECT_EQ(state->bytes(), 0);
}

// A model may say that it takes any length: what is quoted stops short of the largest number.
TEST_P(CachePartsTest, BytesOfAnyLengthAreANumber) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(layout_.Bytes(0), 0);
  EXPECT_EQ(layout_.Bytes(257), Bytes(2));
  EXPECT_EQ(layout_.Bytes(kMost), kMostBytes);
}

// With every token that may come, not with the square of them: a page of any context is of one
// size, which the longest contexts share.
TEST_P(CachePartsTest, BytesGrowWithTheTokens) {
  const auto bytes = [&](int64_t longest, int64_t tokens) {
    return StateLayout({{"layers.0.", &parts_}, {"layers.1.", &parts_}}, longest).Bytes(tokens);
  };
  for (const int64_t longest : {100'000'000L, int64_t{1} << 50}) {
    const int64_t page = bytes(longest, 1);
    EXPECT_EQ(page, bytes(32'768, 1));
    EXPECT_EQ(bytes(longest, 257), 2 * page);
    // Their list takes whole pages, a power of two of them.
    const int64_t list = bytes(longest, 256'000'000) - 1'000'000 * page;
    EXPECT_GE(list, 8'000'000);
    EXPECT_LE(list, 2 * 8'000'000 + page);
    EXPECT_EQ(list % page, 0);
  }
}

// 128 pages, which the last one lists, and more, whose list has memory of its own.
TEST_P(CachePartsTest, AllPagesAreFound) {
  constexpr int64_t kPages = 128 * 128 + 200;
  const CacheParts parts{{.kv_heads = 1, .key = 1, .value = 1, .dtype = GetParam()}};
  const StateLayout layout{{{"layers.0.", &parts}}, kPages * 256};
  const auto state = SessionState::Create(*device_, layout).value();
  std::vector<const void*> found;
  for (const int64_t pages : {1L, 2L, 100L, 128L, 129L, 300L, 128L * 128, kPages}) {
    const int64_t more = pages * 256 - state->position();
    ASSERT_TRUE(state->Extend(more).ok());
    state->Advance(more);
    EXPECT_EQ(state->bytes(), layout.Bytes(state->position()));
    const KeyValuePages view = state->Parts(0).pages;
    ASSERT_EQ(view.count, pages);
    for (size_t p = 0; p < found.size(); ++p) {
      ASSERT_EQ(view.pages[p], found[p]) << "a page stays where it is";
    }
    for (int64_t p = std::ssize(found); p < pages; ++p) found.push_back(view.pages[p]);
  }
  EXPECT_EQ(std::set<const void*>(found.begin(), found.end()).size(), found.size());
}

// What lies beneath: keys in panels, values in rows, layers one behind the other.
TEST_P(CachePartsTest, SectionsListPositionsInOrder) {
  const std::unique_ptr<SessionState> state = New();
  constexpr int64_t kTokens = 300;
  ASSERT_TRUE(state->Extend(kTokens).ok());
  state->Advance(kTokens);
  const auto set = [&](std::byte* layer, int64_t index, float value) {
    if (GetParam() == DType::kFloat32) {
      reinterpret_cast<float*>(layer)[index] = value;
    } else {
      reinterpret_cast<BFloat16*>(layer)[index] = ToBFloat16(value);
    }
  };
  // Small integers, which bfloat16 has.
  const auto value_of = [](size_t l, int64_t g, int64_t p, int64_t i) {
    return static_cast<float>((static_cast<int64_t>(l) * 89 + g * 31 + p * 7 + i) % 127);
  };
  const KeyValueShape& shape = parts_.shape();
  for (size_t l = 0; l < 2; ++l) {
    for (int64_t p = 0; p < kTokens; ++p) {
      auto* const layer = static_cast<std::byte*>(state->Parts(l).pages.pages[p / 256]) +
                          static_cast<int64_t>(l) * shape.LayerBytes();
      for (int64_t g = 0; g < 2; ++g) {
        for (int64_t i = 0; i < 3; ++i)
          set(layer, shape.KeyIndex(g, p % 256, i), value_of(l, g, p, i));
        for (int64_t i = 0; i < 5; ++i) {
          set(layer + shape.ValueOffset(), shape.ValueIndex(g, p % 256) + i,
              value_of(l, g, p, 3 + i));
        }
      }
    }
  }
  const Content content = ContentOf(*state);
  const auto at = [&](const std::string& section, int64_t index) {
    if (GetParam() == DType::kFloat32) {
      return ValuesOf<float>(content, section)[static_cast<size_t>(index)];
    }
    return ToFloat(ValuesOf<BFloat16>(content, section)[static_cast<size_t>(index)]);
  };
  for (const int64_t p : {0, 15, 16, 255, 256, 299}) {
    for (int64_t g = 0; g < 2; ++g) {
      EXPECT_EQ(at("layers.1.key", (g * kTokens + p) * 3 + 2), value_of(1, g, p, 2)) << p;
      EXPECT_EQ(at("layers.0.value", (g * kTokens + p) * 5 + 4), value_of(0, g, p, 7)) << p;
    }
  }
}

TEST_P(CachePartsTest, LoadAndCopyGiveTheSameContent) {
  for (const int64_t position : {0, 1, 255, 256, 257, 999}) {
    const std::unique_ptr<SessionState> original = Synthesized(position);
    const Content content = ContentOf(*original);
    for (const int64_t before : {0, 300, 1000}) {
      const std::unique_ptr<SessionState> loaded = Synthesized(before, 6),
                                          copied = Synthesized(before, 7);
      const absl::Status status = LoadContent(*loaded, position, content);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_TRUE(copied->CopyFrom(*original).ok());
      for (const auto* state : {loaded.get(), copied.get()}) {
        EXPECT_EQ(state->position(), position);
        EXPECT_EQ(state->bytes(), original->bytes());
        EXPECT_EQ(ContentOf(*state), content);
      }
    }
  }
}

TEST_P(CachePartsTest, ACopySharesNothing) {
  const std::unique_ptr<SessionState> original = Synthesized(300), copy = New();
  const Content content = ContentOf(*original);
  ASSERT_TRUE(copy->CopyFrom(*original).ok());
  ASSERT_TRUE(original->Extend(1).ok());
  ASSERT_TRUE(copy->Extend(1).ok());
  for (int64_t page = 0; page < 2; ++page) {
    EXPECT_NE(copy->Parts(0).pages.pages[page], original->Parts(0).pages.pages[page]);
    std::memset(copy->Parts(0).pages.pages[page], 0, static_cast<size_t>(layout_.list_offset()));
  }
  EXPECT_EQ(ContentOf(*original), content);
  const StateLayout other({{"layers.0.", &parts_}, {"layers.1.", &parts_}}, 1000);
  EXPECT_EQ(SessionState::Create(*device_, other).value()->CopyFrom(*original).code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_P(CachePartsTest, VisitsFromASectionOn) {
  const std::unique_ptr<SessionState> state = Synthesized(300);
  const std::vector<SectionInfo> sections = state->Sections();
  ASSERT_EQ(sections.size(), 4U);
  for (size_t first = 0; first <= sections.size(); ++first) {
    size_t next = first;
    ASSERT_TRUE(state
                    ->VisitSectionsFrom(first,
                                        [&](const SectionInfo& section, auto) {
                                          EXPECT_EQ(section, sections[next++]);
                                          return absl::OkStatus();
                                        })
                    .ok());
    EXPECT_EQ(next, sections.size());
  }
}

TEST_P(CachePartsTest, RefusesWhatNoTokensLeave) {
  const std::unique_ptr<SessionState> state = Synthesized(300);
  const auto problem = [&](int64_t position, const Content& content) {
    EXPECT_TRUE(Synthesize(*state, layout_.Sections(70), 70, 6).ok());
    const absl::Status status = LoadContent(*state, position, content);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(state->position(), 0);
    EXPECT_EQ(state->bytes(), 0);
    return std::string(status.message());
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const char* section : {"layers.0.key", "layers.1.value"}) {
    Content content = ContentOf(*Synthesized(300));
    if (GetParam() == DType::kFloat32) {
      Set(content, section, 600, infinity);
    } else {
      Set(content, section, 600, ToBFloat16(infinity));
    }
    EXPECT_EQ(problem(300, content), std::string(section) + "[600] is inf, must be finite");
  }
  EXPECT_THAT(problem(1001, {}), HasSubstr("a context of 1001 tokens, must have at most 1000"));
  EXPECT_THAT(problem(-1, {}), HasSubstr("position is -1"));
  EXPECT_THAT(problem(std::numeric_limits<int64_t>::max(), {}), HasSubstr("position is "));
}

INSTANTIATE_TEST_SUITE_P(ValueTypes, CachePartsTest,
                         testing::Values(DType::kFloat32, DType::kBFloat16),
                         [](const auto& info) { return std::string(Name(info.param)); });

}  // namespace
}  // namespace tvq
