// A snapshot that is read slowly keeps its state from no place where others need one.
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"

namespace tvq {
namespace {

// Where the state goes while it is read.
struct Way {
  const char* name;
  int64_t host_bytes;
  bool durable;
  bool shared;
};

class SlowExportTest : public testing::TestWithParam<Way> {
 protected:
  SlowExportTest() : h_({.host_bytes = GetParam().host_bytes}) {
    if (GetParam().durable) {
      h_.Start(std::make_unique<MemoryTier>(std::make_shared<MemoryDisk>(), GetParam().shared));
    }
  }

  // What is left of `stream`, in pieces of 100 bytes.
  std::string Rest(SnapshotStream& stream) {
    std::string rest;
    for (;;) {
      const auto next = stream.Next(100);
      EXPECT_TRUE(next.ok()) << next.status();
      if (!next.ok() || next->empty()) return rest;
      rest += *next;
    }
  }

  // All of the device, once what lies there has moved.
  std::optional<StateBudget::Share> TakeDevice() {
    StateBudget& budget = h_.engine->budget();
    std::optional<StateBudget::Share> all;
    const auto taken = [&] {
      budget.ReportShortage(budget.total());
      all = budget.TryReserve(budget.total());
      return all.has_value();
    };
    EXPECT_TRUE(Eventually(taken)) << "the state stays where it is";
    return all;
  }

  StoreHarness h_;
};

TEST_P(SlowExportTest, LetsTheStateLeaveTheDevice) {
  const SessionCall call{.id = h_.Create()};
  ASSERT_TRUE(h_.Append(call, "text").ok());
  const auto whole = h_.store->Export(call, {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  const std::string expected = Rest(**whole);
  ASSERT_GT(expected.size(), 1000u);

  for (const int64_t first : {int64_t{0}, int64_t(expected.size()) - 500}) {
    ASSERT_TRUE(h_.Append(call, "more").ok());  // its state is on the device again
    const auto again = h_.store->Export(call, {});
    ASSERT_TRUE(again.ok()) << again.status();
    const std::string now = Rest(**again);
    const auto slow = h_.store->Export(call, {});
    ASSERT_TRUE(slow.ok()) << slow.status();
    std::string read;
    if (first > 0) read = *(*slow)->Next(first);
    // Used later, and so moved on later from host memory, too, if it is small.
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(h_.Append({.id = h_.Create()}, "other").ok());
    const auto device = TakeDevice();
    EXPECT_EQ(h_.store->stats().durable.sessions > 0, GetParam().durable);
    EXPECT_EQ(read + Rest(**slow), now) << first;
  }
}

INSTANTIATE_TEST_SUITE_P(To, SlowExportTest,
                         testing::Values(Way{"HostMemory", 1'000'000, false, false},
                                         Way{"Disk", 3500, true, false},
                                         Way{"SharedStore", 3500, true, true}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace tvq
