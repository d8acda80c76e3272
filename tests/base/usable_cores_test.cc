#include "base/usable_cores.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
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

  // The name of a test with a parameter has a slash.
  const std::string root_ = [] {
    std::string name = testing::UnitTest::GetInstance()->current_test_info()->name();
    std::replace(name.begin(), name.end(), '/', '_');
    return testing::TempDir() + "usable_cores_" + name;
  }();
};

TEST_F(UsableCoresTest, AreAllWithoutCgroups) { EXPECT_EQ(Cores(8), 8); }

// What a version of control groups calls a group, and where its files lie.
struct Cgroups {
  const char* name;
  int version;
  std::string line;  // of /proc/self/cgroup, up to the group's path
  std::string root;
  std::string of_a_container;  // the path where the group is mounted as the root
};

// Those of version 1 are mounted by the names of all controllers, and mostly linked by each; within
// a container they have the name that the host gave them.
const Cgroups kCgroups[] = {
    {"V1", 1, "4:cpu,cpuacct:", "/sys/fs/cgroup/cpu,cpuacct", "/docker/0123"},
    {"V1Linked", 1, "4:cpu,cpuacct:", "/sys/fs/cgroup/cpu", "/docker/0123"},
    {"V2", 2, "0::", "/sys/fs/cgroup", "/"}};

class CgroupsTest : public UsableCoresTest, public testing::WithParamInterface<Cgroups> {
 protected:
  void EnterGroup(const std::string& path) {
    Write("/proc/self/cgroup", "5:memory:/other\n" + GetParam().line + path + "\n");
  }
  // Microseconds of a tenth of a second; -1: no quota.
  void GiveQuota(const std::string& group, int microseconds) {
    const std::string folder = GetParam().root + group;
    if (GetParam().version == 1) {
      WriteQuota(folder, absl::StrCat(microseconds));
    } else {
      const std::string quota = microseconds < 0 ? "max" : absl::StrCat(microseconds);
      Write(folder + "/cpu.max", quota + " 100000\n");
    }
  }
};

TEST_P(CgroupsTest, AreTheLeastOfItsGroupAndThoseAbove) {
  EnterGroup("/system/server");
  GiveQuota("/system/server", -1);
  EXPECT_EQ(Cores(8), 8);
  GiveQuota("/system", 250'000);
  EXPECT_EQ(Cores(8), 3);
  EXPECT_EQ(Cores(2), 2);
  GiveQuota("/system/server", 110'000);
  EXPECT_EQ(Cores(8), 2);
  GiveQuota("/system/server", 5'000);
  EXPECT_EQ(Cores(8), 1);
}

TEST_P(CgroupsTest, InAContainerAreTheRoots) {
  EnterGroup(GetParam().of_a_container);
  GiveQuota("", 300'000);
  EXPECT_EQ(Cores(8), 3);
}

INSTANTIATE_TEST_SUITE_P(UsableCores, CgroupsTest, testing::ValuesIn(kCgroups),
                         [](const auto& info) { return std::string(info.param.name); });

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
