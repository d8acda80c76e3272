#include "models/runtime/stack/session_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/runtime/layers/attention/cache_parts.h"
#include "models/runtime/layers/attention/linear/parts.h"
#include "models/runtime/layers/attention/vq/parts.h"
#include "tests/models/host_memory.h"
#include "tests/models/runtime/stack/state_content.h"
#include "tests/models/synthetic_state.h"

namespace tvq {
namespace {

using ::testing::ElementsAre;

// Where the call that comes after `left` more fails, and all behind it, as those of a GPU do.
class FailingMemory : public HostMemory {
 public:
  static constexpr int64_t kNever = int64_t{1} << 60;

  absl::StatusOr<Buffer> Allocate(size_t bytes) override {
    if (absl::Status s = Call(); !s.ok()) return s;
    return HostMemory::Allocate(bytes);
  }
  absl::Status CopyWithin(void* to, const void* from, size_t bytes) override {
    absl::Status s = Call();
    return s.ok() ? HostMemory::CopyWithin(to, from, bytes) : s;
  }

  int64_t left = kNever;

 private:
  absl::Status Call() {
    return --left < 0 ? absl::UnavailableError("the memory is gone") : absl::OkStatus();
  }
};

// A state whose layers keep different things: of constant size, a ring, and pages.
class MixedStateTest : public testing::Test {
 protected:
  std::unique_ptr<SessionState> New() { return SessionState::Create(*device_, layout_).value(); }
  std::unique_ptr<SessionState> Synthesized(int64_t position, uint64_t seed) {
    auto state = New();
    EXPECT_TRUE(Synthesize(*state, layout_.Sections(position), position, seed).ok());
    return state;
  }

  void ExpectBlank(const SessionState& state) {
    EXPECT_EQ(state.position(), 0);
    EXPECT_EQ(state.bytes(), layout_.Bytes(0));
    EXPECT_EQ(ContentOf(state), ContentOf(*New()));
  }

  const VqParts vq_{{.kv_heads = 2, .codes = 3, .window = 5, .value = 5}};
  const CacheParts cache_{{.kv_heads = 2, .key = 3, .value = 5, .dtype = DType::kBFloat16}};
  const CacheParts wide_{{.kv_heads = 1, .key = 8, .value = 8}};
  const LinearParts linear_{{.kv_heads = 2, .features = 3, .value = 5}};
  const StateLayout layout_{
      {{"layers.0.", &cache_}, {"layers.1.", &vq_}, {"layers.2.", &wide_}, {"layers.3.", &linear_}},
      1000};
  const std::unique_ptr<Device> device_ = MakeDevice("cpu", 1).value();
};

TEST_F(MixedStateTest, IsCutWhereAllIsPages) {
  const StateLayout pages({{"layers.0.", &cache_}, {"layers.1.", &wide_}}, 1000);
  EXPECT_TRUE(pages.AllInPages());
  const auto whole = SessionState::Create(*device_, pages).value();
  ASSERT_TRUE(Synthesize(*whole, pages.Sections(600), 600, 1).ok());
  const auto cut = SessionState::Create(*device_, pages).value();
  for (const int64_t tokens : {600, 512, 257, 1, 0}) {
    ASSERT_TRUE(cut->CopyFirst(*whole, tokens).ok());
    EXPECT_EQ(cut->position(), tokens);
    EXPECT_EQ(cut->bytes(), pages.Bytes(tokens));
    // A state that is cut once more is cut as the first.
    const auto again = SessionState::Create(*device_, pages).value();
    ASSERT_TRUE(again->CopyFirst(*cut, tokens / 2).ok());
    const auto at_once = SessionState::Create(*device_, pages).value();
    ASSERT_TRUE(at_once->CopyFirst(*whole, tokens / 2).ok());
    EXPECT_EQ(ContentOf(*again), ContentOf(*at_once));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(cut->CopyFirst(*whole, 601)));
  EXPECT_TRUE(absl::IsInvalidArgument(cut->CopyFirst(*whole, -1)));
  EXPECT_FALSE(layout_.AllInPages());
  EXPECT_TRUE(absl::IsInvalidArgument(New()->CopyFirst(*Synthesized(10, 1), 5)));
}

TEST_F(MixedStateTest, TakesWhatEachKindWouldTakeAlone) {
  const StateLayout constant({{"layers.0.", &vq_}, {"layers.1.", &linear_}}, 0),
      pages({{"layers.0.", &cache_}, {"layers.1.", &wide_}}, 1000);
  EXPECT_EQ(layout_.Bytes(0), constant.Bytes(0));
  EXPECT_EQ(layout_.Bytes(257), constant.Bytes(257) + pages.Bytes(257));
  const auto state = New();
  EXPECT_EQ(state->bytes(), layout_.Bytes(0));
  ASSERT_TRUE(state->Extend(257).ok());
  state->Advance(257);
  EXPECT_EQ(state->bytes(), layout_.Bytes(257));
}

TEST_F(MixedStateTest, SectionsAreThoseOfTheLayersInTheirOrder) {
  std::vector<std::string> names;
  for (const SectionInfo& section : layout_.Sections(7)) names.push_back(section.name);
  EXPECT_THAT(
      names, ElementsAre("layers.0.key", "layers.0.value", "layers.1.acc_sum", "layers.1.acc_carry",
                         "layers.1.acc_count", "layers.1.win_code", "layers.1.win_value",
                         "layers.2.key", "layers.2.value", "layers.3.key_value_sum",
                         "layers.3.key_value_carry", "layers.3.key_sum", "layers.3.key_carry"));
}

TEST_F(MixedStateTest, LoadAndCopyGiveTheSameContent) {
  for (const int64_t position : {0, 3, 256, 300, 1000}) {
    const auto original = Synthesized(position, 5);
    const Content content = ContentOf(*original);
    const auto loaded = Synthesized(700, 6), copied = Synthesized(20, 7);
    ASSERT_TRUE(LoadContent(*loaded, position, content).ok());
    ASSERT_TRUE(copied->CopyFrom(*original).ok());
    for (const auto* state : {loaded.get(), copied.get()}) {
      EXPECT_EQ(state->position(), position);
      EXPECT_EQ(state->bytes(), layout_.Bytes(position));
      EXPECT_EQ(ContentOf(*state), content);
    }
  }
}

// What is sealed lies in one place, and is paid for until the last state that holds it is gone.
TEST_F(MixedStateTest, CopiesShareWhatIsSealed) {
  int64_t paid = 0;
  const auto pay = [&](int64_t bytes) {
    paid += bytes;
    return std::shared_ptr<const void>(nullptr, [&paid, bytes](const void*) { paid -= bytes; });
  };
  auto original = Synthesized(600, 5);
  const Content content = ContentOf(*original);
  original->Seal(pay);
  EXPECT_EQ(paid, 2 * layout_.page_bytes());
  EXPECT_EQ(original->sealed_bytes(), paid);
  original->Seal(pay);
  EXPECT_EQ(paid, 2 * layout_.page_bytes()) << "once each";
  const auto copy = New(), of_copy = New();
  ASSERT_TRUE(copy->CopyFrom(*original).ok());
  ASSERT_TRUE(of_copy->CopyFrom(*copy).ok());
  for (const auto* state : {copy.get(), of_copy.get()}) {
    EXPECT_EQ(state->bytes(), original->bytes());
    EXPECT_EQ(state->sealed_bytes(), 2 * layout_.page_bytes());
    EXPECT_EQ(ContentOf(*state), content);
  }
  for (SessionState* const state : {original.get(), copy.get(), of_copy.get()}) {
    ASSERT_TRUE(state->Extend(1).ok());
  }
  const auto page = [](const SessionState& state, size_t p) {
    return state.Parts(0).pages.pages[p];
  };
  for (size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(page(*copy, p), page(*original, p));
    EXPECT_EQ(page(*of_copy, p), page(*original, p));
  }
  // The third has positions that tokens still come to.
  EXPECT_NE(page(*copy, 2), page(*original, 2));
  EXPECT_NE(page(*of_copy, 2), page(*copy, 2));
  EXPECT_EQ(paid, 2 * layout_.page_bytes());

  ASSERT_TRUE(original->Reset().ok());
  original.reset();
  EXPECT_EQ(paid, 2 * layout_.page_bytes());
  EXPECT_EQ(ContentOf(*copy), content);
  // What is loaded over it goes to pages of its own.
  ASSERT_TRUE(LoadContent(*copy, 700, ContentOf(*Synthesized(700, 6))).ok());
  EXPECT_EQ(copy->sealed_bytes(), 0);
  EXPECT_EQ(ContentOf(*of_copy), content);
  ASSERT_TRUE(of_copy->CopyFrom(*copy).ok());
  EXPECT_EQ(paid, 0);
}

// A copy that is cut shares the pages that are whole in it.
TEST_F(MixedStateTest, WhatIsCutSharesWholePages) {
  const StateLayout pages({{"layers.0.", &cache_}, {"layers.1.", &wide_}}, 1000);
  const auto whole = SessionState::Create(*device_, pages).value(),
             other = SessionState::Create(*device_, pages).value();
  ASSERT_TRUE(Synthesize(*whole, pages.Sections(800), 800, 1).ok());
  ASSERT_TRUE(other->CopyFrom(*whole).ok());
  whole->Seal([](int64_t) { return std::make_shared<const int>(0); });
  EXPECT_EQ(whole->sealed_bytes(), 3 * pages.page_bytes());
  for (const int64_t tokens : {800, 768, 767, 512, 257, 1, 0}) {
    const auto cut = SessionState::Create(*device_, pages).value(),
               apart = SessionState::Create(*device_, pages).value();
    ASSERT_TRUE(cut->CopyFirst(*whole, tokens).ok());
    ASSERT_TRUE(apart->CopyFirst(*other, tokens).ok());
    EXPECT_EQ(cut->sealed_bytes(), tokens / 256 * pages.page_bytes()) << tokens;
    EXPECT_EQ(apart->sealed_bytes(), 0);
    EXPECT_EQ(cut->bytes(), pages.Bytes(tokens));
    EXPECT_EQ(ContentOf(*cut), ContentOf(*apart));
    // What it is fed does not show in the other.
    ASSERT_TRUE(cut->Extend(1).ok());
    void* const last = cut->Parts(0).pages.pages[tokens / 256];
    std::memset(last, 0xff, static_cast<size_t>(pages.list_offset()));
    EXPECT_EQ(ContentOf(*whole), ContentOf(*other));
  }
}

TEST_F(MixedStateTest, VisitsFromASectionOn) {
  const auto state = Synthesized(300, 5);
  const std::vector<SectionInfo> sections = state->Sections();
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

// Nobody writes where another layer's parts lie.
TEST_F(MixedStateTest, PartsDoNotOverlap) {
  const auto state = Synthesized(300, 5);
  ASSERT_TRUE(state->Extend(1).ok());
  const Content before = ContentOf(*state);
  const VqState vq = vq_.At(state->Parts(1));
  std::memset(vq.window_value, 0, sizeof(float) * 2 * 5 * 5);
  std::memset(linear_.At(state->Parts(3)).key_carry, 0, sizeof(float) * 2 * 3);
  for (int64_t page = 0; page < 2; ++page) {
    auto* const first = static_cast<std::byte*>(state->Parts(2).pages.pages[page]);
    std::memset(first + layout_.layers()[2].page_first, 0,
                static_cast<size_t>(wide_.shape().LayerBytes()));
  }
  const Content after = ContentOf(*state);
  for (const auto& [name, bytes] : before) {
    const bool cleared = name == "layers.1.win_value" || name.starts_with("layers.2.");
    EXPECT_EQ(bytes != after.at(name), cleared) << name;
  }
}

TEST_F(MixedStateTest, AfterAnErrorItIsAsAfterReset) {
  const auto state = Synthesized(300, 5);
  Content content = ContentOf(*state);
  Set<int32_t>(content, "layers.1.win_code", 0, 3);
  const absl::Status status = LoadContent(*state, 300, content);
  EXPECT_EQ(status.message(), "layers.1.win_code[0] is 3, must be 0 to 2");
  ExpectBlank(*state);
}

TEST_F(MixedStateTest, PositionsThatNoStateHasAreRefused) {
  for (const auto& [position, message] :
       {std::pair(int64_t{-1}, "position is -1, must be 0 to 4611686018427387904"),
        {(int64_t{1} << 62) + 1,
         "position is 4611686018427387905, must be 0 to 4611686018427387904"},
        {int64_t{1001}, "a context of 1001 tokens, must have at most 1000"}}) {
    const auto state = Synthesized(300, 5);
    const absl::Status status = LoadContent(*state, position, {});
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(status.message(), message);
    ExpectBlank(*state);
  }
}

// One that nobody has fed yet, and one that was fed and reset.
TEST_F(MixedStateTest, ACopyOfABlankStateIsBlank) {
  const auto fresh = New(), reset = Synthesized(300, 5);
  ASSERT_TRUE(reset->Reset().ok());
  for (const auto* blank : {fresh.get(), reset.get()}) {
    const auto state = Synthesized(600, 6);
    ASSERT_TRUE(state->CopyFrom(*blank).ok());
    ExpectBlank(*state);
  }
}

// Wherever they fail: at a page, or what is copied.
TEST_F(MixedStateTest, AfterACopyOrALoadThatFailsItIsAsAfterReset) {
  FailingMemory memory;
  const auto original = Synthesized(700, 5);
  const Content content = ContentOf(*original);
  const auto make = [&](int64_t position, uint64_t seed) {
    auto state = SessionState::Create(memory, layout_).value();
    EXPECT_TRUE(Synthesize(*state, layout_.Sections(position), position, seed).ok());
    return state;
  };
  const auto source = make(700, 5);
  const auto expect_blank_after_each_failure =
      [&](const std::function<absl::Status(SessionState&)>& change) {
        for (int64_t calls = 0;; ++calls) {
          const auto state = make(300, 6);
          memory.left = calls;
          const absl::Status status = change(*state);
          memory.left = FailingMemory::kNever;
          if (status.ok()) {
            EXPECT_EQ(ContentOf(*state), content);
            return calls;
          }
          EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
          ExpectBlank(*state);
        }
      };
  // Three pages that are taken and copied, and the block.
  EXPECT_EQ(
      expect_blank_after_each_failure([&](SessionState& state) { return state.CopyFrom(*source); }),
      3 + 3 + 1);
  // Of two layers in pages each has its part of three, of two others theirs of the block.
  EXPECT_EQ(expect_blank_after_each_failure(
                [&](SessionState& state) { return LoadContent(state, 700, content); }),
            3 + 2 * 3 + 2);
}

}  // namespace
}  // namespace tvq
