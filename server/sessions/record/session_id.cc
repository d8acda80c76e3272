#include "server/sessions/record/session_id.h"

#include <algorithm>
#include <random>

#include "absl/strings/str_cat.h"

namespace tvq {

std::string NewSessionId() {
  std::random_device random;  // getrandom or its like: no state of its own, not seeded
  std::string id;
  for (int word = 0; word < 4; ++word) {
    absl::StrAppend(&id, absl::Hex(random(), absl::kZeroPad8));
  }
  return id;
}

bool IsSessionId(std::string_view text) {
  return text.size() == 32 && std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace tvq
