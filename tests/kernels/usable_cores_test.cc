#include "kernels/usable_cores.h"

#include <filesystem>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace tvq {
namespace {

// A root below which a test writes what a system would show.
class UsableCoresTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(root_); }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  // Of version 1, a tenth of a second as period.
  void WriteQuota(const std::string& folder, const std::string& microseconds) {
    Write(folder + "/cpu.cfs_quota_us", microseconds + "\n");
    Write(folder + "/cpu.cfs_period_us", "100000\n");
  }
  int Cores(int cores) { return CoresWithinQuota(cores, root_); }

  const std::string root_ = testing::TempDir() + "usable_cores_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(UsableCoresTest, AreAllWithoutCgroups) { EXPECT_EQ(Cores(8), 8); }

TEST_F(UsableCoresTest, OfVersion2AreTheLeastOfItsGroupAndThoseAbove) {
  Write("/proc/self/cgroup", "0::/system/server\n");
  Write("/sys/fs/cgroup/system/server/cpu.max", "max 100000\n");
  EXPECT_EQ(Cores(8), 8);
  Write("/sys/fs/cgroup/system/cpu.max", "250000 100000\n");
  EXPECT_EQ(Cores(8), 3);
  EXPECT_EQ(Cores(2), 2);
  Write("/sys/fs/cgroup/system/server/cpu.max", "5000 100000\n");
  EXPECT_EQ(Cores(8), 1);
}

TEST_F(UsableCoresTest, OfVersion2InAContainerAreTheRoots) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(Cores(8), 2);
}

TEST_F(UsableCoresTest, OfVersion1AreTheLeastOfItsGroupAndThoseAbove) {
  Write("/proc/self/cgroup", "5:memory:/other\n4:cpu,cpuacct:/system/server\n0::/\n");
  WriteQuota("/sys/fs/cgroup/cpu,cpuacct/system/server", "-1");
  EXPECT_EQ(Cores(8), 8);
  WriteQuota("/sys/fs/cgroup/cpu,cpuacct/system", "400000");
  EXPECT_EQ(Cores(8), 4);
  WriteQuota("/sys/fs/cgroup/cpu,cpuacct/system/server", "110000");
  EXPECT_EQ(Cores(8), 2);
}

// A container's group has the name that the host gave it, but is mounted as the root.
TEST_F(UsableCoresTest, OfVersion1InAContainerAreTheRoots) {
  Write("/proc/self/cgroup", "4:cpu,cpuacct:/docker/0123\n");
  WriteQuota("/sys/fs/cgroup/cpu", "300000");
  EXPECT_EQ(Cores(8), 3);
}

TEST_F(UsableCoresTest, OfAnotherControllersGroupDoNotCount) {
  Write("/proc/self/cgroup", "4:cpuset:/system\n3:cpuacct:/system\n");
  WriteQuota("/sys/fs/cgroup/cpu/system", "100000");
  EXPECT_EQ(Cores(8), 8);
}

TEST_F(UsableCoresTest, AreAllWhereAQuotaCannotBeRead) {
  Write("/proc/self/cgroup", "no colons\n0::/\n4:cpu:/\n");
  Write("/sys/fs/cgroup/cpu.max", "much\n");
  WriteQuota("/sys/fs/cgroup/cpu", "little");
  EXPECT_EQ(Cores(8), 8);
}

}  // namespace
}  // namespace tvq
