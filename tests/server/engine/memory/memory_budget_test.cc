#include "server/engine/memory/memory_budget.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <utility>

namespace tvq {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(UsableBytesTest, NineTenthsOfWhatIsFreeLessWorkspace) {
  EXPECT_EQ(UsableBytes({.available = 1000}, 100), 800);
  EXPECT_EQ(UsableBytes({.available = 1000, .group_limit = 600, .group_used = 100}, 100), 350);
  EXPECT_EQ(UsableBytes({.available = 1000, .group_limit = 6000}, 0), 900);
}

TEST(UsableBytesTest, IsNeverNegative) {
  EXPECT_EQ(UsableBytes({.available = 1000}, 5000), 0);
  EXPECT_EQ(UsableBytes({.available = 1000, .group_limit = 10, .group_used = 90}, 0), 0);
}

TEST(DivideMemoryTest, GivesOutNoByteTwice) {
  const auto divide = [](StateMemory asked) {
    const StateMemory memory = DivideMemory(1000, asked);
    return std::pair(memory.device, memory.host);
  };
  EXPECT_EQ(divide({}), std::pair(int64_t{750}, int64_t{250}));
  EXPECT_EQ(divide({.device = 400}), std::pair(int64_t{400}, int64_t{250}));
  EXPECT_EQ(divide({.device = 900}), std::pair(int64_t{900}, int64_t{100}));
  EXPECT_EQ(divide({.host = 600}), std::pair(int64_t{400}, int64_t{600}));
  // What is asked for is given.
  EXPECT_EQ(divide({.device = 2000}), std::pair(int64_t{2000}, int64_t{0}));
  EXPECT_EQ(divide({.host = 2000}), std::pair(int64_t{0}, int64_t{2000}));
  EXPECT_EQ(divide({.device = 800, .host = 700}), std::pair(int64_t{800}, int64_t{700}));
}

class ReadMemoryFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::path(::testing::TempDir()) /
            ::testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(root_);
    Write("proc/meminfo", "MemTotal: 4096 kB\nMemAvailable:    2048 kB\n");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  absl::StatusOr<MemoryFacts> Read() const { return ReadMemoryFacts(root_ / "proc", root_ / "cg"); }

  std::filesystem::path root_;
};

TEST_F(ReadMemoryFactsTest, WithoutGroupsThereIsNoLimit) {
  const auto facts = Read();
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->available, 2 * kMiB);
  EXPECT_FALSE(facts->group_limit.has_value());
}

TEST_F(ReadMemoryFactsTest, AContainerSeesItsLimitAtTheRoot) {
  Write("proc/self/cgroup", "0::/\n");
  Write("cg/memory.max", "1000000\n");
  Write("cg/memory.current", "400000\n");
  Write("cg/memory.stat", "anon 100\nactive_file 50000\ninactive_file 150000\n");
  const auto facts = Read();
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->group_limit, 1000000);
  EXPECT_EQ(facts->group_used, 200000);
}

TEST_F(ReadMemoryFactsTest, TheTightestAncestorCounts) {
  Write("proc/self/cgroup", "12:cpu:/x\n0::/a/b/c\n");
  Write("cg/memory.max", "max\n");
  Write("cg/a/memory.max", "500\n");
  Write("cg/a/memory.current", "300\n");
  Write("cg/a/b/memory.max", "max\n");
  Write("cg/a/b/c/memory.max", "400\n");
  Write("cg/a/b/c/memory.current", "100\n");
  const auto facts = Read();
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->group_limit, 500);
  EXPECT_EQ(facts->group_used, 300);
}

TEST_F(ReadMemoryFactsTest, WithoutMeminfoItSaysWhatToDo) {
  std::filesystem::remove(root_ / "proc/meminfo");
  EXPECT_TRUE(absl::IsUnavailable(Read().status()));
}

}  // namespace
}  // namespace tvq
