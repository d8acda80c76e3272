#include "models/runtime/stack/page_list.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {

KeyValuePages PageList::view() const {
  return {reinterpret_cast<void* const*>(list_), static_cast<int64_t>(listed_)};
}

absl::Status PageList::Resize(int64_t tokens) {
  if (layout_.page_bytes() == 0) return absl::OkStatus();
  if (tokens > layout_.max_position()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a context of ", tokens, " tokens, must have at most ", layout_.max_position()));
  }
  const auto wanted = static_cast<size_t>(layout_.Pages(tokens));
  const size_t before = pages_.size();
  if (wanted < before) Drop(wanted);
  absl::Status s = Take(wanted);
  if (!s.ok()) Drop(std::min(before, wanted));
  return s;
}

void PageList::Drop(size_t count) {
  if (count < listed_) {  // the list may lie in a page that is freed
    list_ = nullptr;
    listed_ = 0;
  }
  pages_.resize(count);
  sealed_ = std::min(sealed_, count);
  if (layout_.ListBytes(static_cast<int64_t>(count)) == 0) long_list_ = {};
}

absl::Status PageList::Take(size_t count) {
  while (pages_.size() < count) {
    absl::StatusOr<Device::Reusable> page = AllocateState(device_, layout_.page_bytes(), reuse_);
    if (!page.ok()) return page.status();
    pages_.push_back(std::make_shared<Page>(Page{nullptr, std::move(page->memory)}));
  }
  return absl::OkStatus();
}

absl::Status PageList::CopyFirst(const PageList& other, int64_t tokens) {
  Drop(0);
  sealed_ = std::min(other.sealed_, static_cast<size_t>(tokens / kKeyValuePage));
  const auto shared = static_cast<std::ptrdiff_t>(sealed_);
  pages_.assign(other.pages_.begin(), other.pages_.begin() + shared);
  absl::Status s = Resize(tokens);
  const auto bytes = static_cast<size_t>(layout_.list_offset());  // not the page's list
  for (size_t p = sealed_; s.ok() && p < pages_.size(); ++p) {
    s = device_.CopyWithin(page(p), other.page(p), bytes);
  }
  return s;
}

void PageList::Seal(int64_t position, const State::Pay& pay) {
  if (layout_.page_bytes() == 0) return;
  for (; sealed_ < static_cast<size_t>(position / kKeyValuePage); ++sealed_) {
    pages_[sealed_]->paid = pay(layout_.page_bytes());
  }
}

absl::Status PageList::List(int64_t position) {
  if (pages_.empty()) return absl::OkStatus();
  if (sealed_ > static_cast<size_t>(position / kKeyValuePage)) std::abort();  // it is shared
  const absl::StatusOr<std::byte*> place = ListPlace();
  if (!place.ok()) return place.status();
  if (list_ != *place) listed_ = 0;
  list_ = *place;
  if (listed_ == pages_.size()) return absl::OkStatus();
  std::vector<uintptr_t> addresses;
  addresses.reserve(pages_.size() - listed_);
  for (size_t p = listed_; p < pages_.size(); ++p) {
    addresses.push_back(reinterpret_cast<uintptr_t>(page(p)));
  }
  absl::Status s = device_.CopyFromHost(list_ + listed_ * sizeof(uintptr_t), addresses.data(),
                                        addresses.size() * sizeof(uintptr_t));
  listed_ = s.ok() ? pages_.size() : 0;
  return s;
}

absl::StatusOr<std::byte*> PageList::ListPlace() {
  const auto bytes = static_cast<size_t>(layout_.ListBytes(std::ssize(pages_)));
  if (bytes == 0) return page(pages_.size() - 1) + layout_.list_offset();
  if (long_list_.bytes() != bytes) {
    list_ = nullptr;
    if (absl::Status s = device_.Synchronize(); !s.ok()) return s;  // an op may read it
    long_list_ = {};
    absl::StatusOr<Device::Reusable> list =
        AllocateState(device_, static_cast<int64_t>(bytes), reuse_);
    if (!list.ok()) return list.status();
    long_list_ = std::move(list->memory);
  }
  return long_list_.as<std::byte>();
}

}  // namespace tvq
