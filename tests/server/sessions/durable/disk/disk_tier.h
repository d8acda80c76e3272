// What tests of sessions in a directory begin with.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "server/sessions/durable/disk/tier_disk.h"

namespace tvq::fixtures {

inline std::unique_ptr<DiskTier> OpenDisk(const std::string& dir, int64_t budget = 0) {
  auto tier = DiskTier::Open(dir, budget);
  EXPECT_TRUE(tier.ok()) << tier.status();
  return *std::move(tier);
}

// Of all sessions, by name; without the lock.
inline std::vector<std::string> DiskSessions(const std::string& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(dir)) {
    if (entry.is_regular_file() && entry.path().filename() != "lock") {
      names.push_back(std::filesystem::relative(entry.path(), dir));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace tvq::fixtures
