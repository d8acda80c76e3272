#include "server/sessions/replies.h"

#include <algorithm>
#include <utility>

namespace tvq {

void Replies::Add(const std::string& key, std::string reply) {
  if (key.empty() || reply.size() > kMaxReplyBytes) return;
  if (entries_.size() == kKept) entries_.pop_front();
  entries_.push_back({key, std::make_shared<const std::string>(std::move(reply))});
}

std::optional<std::string> Replies::Find(const std::string& key) const {
  if (key.empty()) return std::nullopt;
  const auto found = std::find_if(entries_.rbegin(), entries_.rend(),
                                  [&](const Entry& entry) { return entry.key == key; });
  if (found == entries_.rend()) return std::nullopt;
  return *found->reply;
}

}  // namespace tvq
