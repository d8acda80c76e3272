#include "models/runtime/stack/page_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {

KeyValuePages PageList::view() const {
  if (pages_.empty()) return {};
  return {reinterpret_cast<void* const*>(ListOf(0)), static_cast<int64_t>(pages_.size()),
          layout_.list_offset()};
}

absl::Status PageList::Resize(int64_t tokens) {
  if (layout_.page_bytes() == 0) return absl::OkStatus();
  if (tokens > layout_.max_position()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a context of ", tokens, " tokens, must have at most ", layout_.max_position()));
  }
  const auto wanted = static_cast<size_t>(layout_.Pages(tokens));
  const size_t before = pages_.size();
  absl::Status s = TakePages(wanted);
  if (s.ok() && wanted > before) s = ListPages(before);
  if (!s.ok()) pages_.resize(before);
  return s;
}

absl::Status PageList::TakePages(size_t count) {
  if (pages_.size() > count) pages_.resize(count);
  while (pages_.size() < count) {
    absl::StatusOr<Device::Reusable> page = AllocateState(device_, layout_.page_bytes(), reuse_);
    if (!page.ok()) return page.status();
    pages_.push_back(std::move(page->memory));
  }
  return absl::OkStatus();
}

absl::Status PageList::ListPages(size_t first) {
  constexpr auto kListed = static_cast<size_t>(KeyValuePages::kListed);
  std::vector<uintptr_t> addresses;
  absl::Status s;
  for (size_t next = first; s.ok() && next < pages_.size(); next += addresses.size()) {
    const size_t list = next / kListed, end = std::min(pages_.size(), (list + 1) * kListed);
    addresses.clear();
    for (size_t i = next; i < end; ++i) {
      addresses.push_back(reinterpret_cast<uintptr_t>(pages_[i].data()));
    }
    s = device_.CopyFromHost(ListOf(list) + next % kListed * sizeof(uintptr_t), addresses.data(),
                             addresses.size() * sizeof(uintptr_t));
  }
  return s;
}

}  // namespace tvq
