#include "base/long_slices.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <thread>

namespace tvq {
namespace {

// The first version of the system's sched_attr.
struct Attributes {
  uint32_t size = sizeof(Attributes);
  uint32_t policy = 0;
  uint64_t flags = 0;
  int32_t nice = 0;
  uint32_t priority = 0;
  uint64_t slice_ns = 0;  // 0 from systems that know no slices
  uint64_t deadline = 0;
  uint64_t period = 0;
};

bool Ask(Attributes* attributes) {
  return syscall(SYS_sched_getattr, 0, attributes, sizeof(*attributes), 0) == 0;
}

Attributes OfThisThread() {
  Attributes attributes;
  EXPECT_TRUE(Ask(&attributes));
  return attributes;
}

constexpr uint64_t kLongNs = 4'000'000;  // what TakeLongSlices asks for

// Whether this thread may ask for anything at all; a sandbox may refuse.
bool MayAsk() {
  Attributes same = OfThisThread();
  return syscall(SYS_sched_setattr, 0, &same, 0) == 0;
}

class LongSlicesTest : public testing::Test {
 protected:
  void SetUp() override {
    Attributes attributes;
    if (!Ask(&attributes)) GTEST_SKIP() << "a sandbox does not let threads ask for their slices";
  }
};

TEST_F(LongSlicesTest, AreLongerThanTheSystemsOwn) {
  const uint64_t own = OfThisThread().slice_ns;
  if (own == 0) GTEST_SKIP() << "needs Linux 6.12";
  if (own >= kLongNs) GTEST_SKIP() << "the system's own are as long";
  std::thread([own] {
    const bool may = MayAsk();
    TakeLongSlices();
    const uint64_t longer = OfThisThread().slice_ns;
    EXPECT_EQ(longer, may ? kLongNs : own);
    TakeLongSlices();
    EXPECT_EQ(OfThisThread().slice_ns, longer);
  }).join();
  EXPECT_EQ(OfThisThread().slice_ns, own) << "another thread's";
}

TEST_F(LongSlicesTest, LeavePolicyAndNiceValue) {
  std::thread([] {
    constexpr int kNice = 7;
    ASSERT_EQ(setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), kNice), 0);
    constexpr sched_param kNone{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_BATCH, &kNone), 0);
    TakeLongSlices();
    EXPECT_EQ(OfThisThread().nice, kNice);
    EXPECT_EQ(OfThisThread().policy, static_cast<uint32_t>(SCHED_BATCH));
  }).join();
}

TEST_F(LongSlicesTest, LeaveAThreadThatTakesWhatOthersLeave) {
  std::thread([] {
    constexpr sched_param kNone{};
    ASSERT_EQ(sched_setscheduler(0, SCHED_IDLE, &kNone), 0);
    const uint64_t own = OfThisThread().slice_ns;
    TakeLongSlices();
    EXPECT_EQ(OfThisThread().slice_ns, own);
    EXPECT_EQ(OfThisThread().policy, static_cast<uint32_t>(SCHED_IDLE));
  }).join();
}

}  // namespace
}  // namespace tvq
