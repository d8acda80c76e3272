#include "tests/kernels/cuda/stand_in/overlap.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "tests/kernels/cuda/stand_in/device_memory.h"

namespace tvq::cuda_stand_in {
namespace {

constexpr size_t kGrain = 16;  // bytes that count as written together
constexpr std::byte kHidden{0xff};

std::atomic<bool> g_check{false};

// Which grains of a block kernels have written, by the block's number. One thread runs kernels
// while the check is on.
std::map<int64_t, std::vector<bool>>& Written() {
  static std::map<int64_t, std::vector<bool>> written;
  return written;
}

std::span<std::byte> Grain(const DeviceBlock& block, size_t grain) {
  return block.bytes.subspan(grain * kGrain, std::min(kGrain, block.bytes.size() - grain * kGrain));
}

}  // namespace

void SetOverlapCheck(bool on) {
  g_check = on;
  Written().clear();
}
bool OverlapCheck() { return g_check; }

OverlapWatch::OverlapWatch() {
  for (const DeviceBlock& block : DeviceBlocks()) {
    image_.emplace_back(block.bytes.begin(), block.bytes.end());
    const auto written = Written().find(block.number);
    if (written == Written().end()) continue;
    for (size_t i = 0; i < written->second.size(); ++i) {
      if (!written->second[i]) continue;
      const std::span<std::byte> grain = Grain(block, i);
      if (!hidden_.empty() && hidden_.back().data() + hidden_.back().size() == grain.data()) {
        hidden_.back() = {hidden_.back().data(), hidden_.back().size() + grain.size()};
      } else {
        hidden_.push_back(grain);
      }
    }
  }
}

void OverlapWatch::Hide() {
  behind_.clear();
  for (const std::span<std::byte> run : hidden_) {
    behind_.insert(behind_.end(), run.begin(), run.end());
    std::fill(run.begin(), run.end(), kHidden);
  }
}

void OverlapWatch::Show() {
  auto next = behind_.begin();
  for (const std::span<std::byte> run : hidden_) {
    std::copy_n(next, run.size(), run.begin());
    next += static_cast<std::ptrdiff_t>(run.size());
  }
}

bool OverlapWatch::ShowUnchanged() {
  const bool still_hidden = std::all_of(hidden_.begin(), hidden_.end(), [](const auto& run) {
    return std::all_of(run.begin(), run.end(), [](std::byte b) { return b == kHidden; });
  });
  Show();
  const std::vector<DeviceBlock> blocks = DeviceBlocks();
  return still_hidden &&
         std::equal(blocks.begin(), blocks.end(), image_.begin(), image_.end(),
                    [](const DeviceBlock& now, const std::vector<std::byte>& was) {
                      return std::memcmp(now.bytes.data(), was.data(), was.size()) == 0;
                    });
}

void OverlapWatch::NoteWritten() {
  const std::vector<DeviceBlock> blocks = DeviceBlocks();
  for (size_t b = 0; b < blocks.size(); ++b) {
    const std::vector<std::byte>& was = image_[b];
    if (std::memcmp(blocks[b].bytes.data(), was.data(), was.size()) == 0) continue;
    std::vector<bool>& written = Written()[blocks[b].number];
    written.resize((was.size() + kGrain - 1) / kGrain);
    for (size_t i = 0; i < written.size(); ++i) {
      const std::span<std::byte> grain = Grain(blocks[b], i);
      if (std::memcmp(grain.data(), was.data() + i * kGrain, grain.size()) != 0) written[i] = true;
    }
  }
}

}  // namespace tvq::cuda_stand_in
