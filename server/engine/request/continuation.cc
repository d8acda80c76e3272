#include "server/engine/request/continuation.h"

#include <algorithm>

namespace tvq {

AnswerEnd AnswerEnd::Of(std::string_view text, size_t last_token, std::string_view stop) {
  AnswerEnd end{.tail = std::string(text.substr(text.size() - std::min(text.size(), kMaxTail)))};
  if (stop.empty()) return end;
  const size_t before = text.size() - last_token;
  const size_t at = text.find(stop, before - std::min(before, stop.size() - 1));
  // Text may have replaced bytes that form no character: then it is not there as it is.
  end.after = at == std::string_view::npos ? stop.size() : text.size() - at;
  end.after = std::min(end.after, end.tail.size());
  return end;
}

void AnswerEnd::Append(std::string_view text) {
  tail += text;
  if (tail.size() > kMaxTail) tail.erase(0, tail.size() - kMaxTail);
  after = std::min(after + text.size(), tail.size());
  appended = appended || !text.empty();
}

}  // namespace tvq
