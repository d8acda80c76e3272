#include "server/engine/continuation.h"

#include <algorithm>

namespace tvq {

void AnswerEnd::Append(std::string_view text) {
  tail += text;
  if (tail.size() > kMaxTail) tail.erase(0, tail.size() - kMaxTail);
  after = std::min(after + text.size(), tail.size());
}

}  // namespace tvq
