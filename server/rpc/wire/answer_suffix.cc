#include "server/rpc/wire/answer_suffix.h"

#include <algorithm>

namespace tvq {
namespace {

// Bytes of `whole`, which begins with so many bytes of suffix, that the context has already.
size_t Fed(const AnswerEnd& end, std::string_view whole, size_t suffix) {
  const std::string_view tail = end.tail;
  const std::string_view after = tail.substr(tail.size() - end.after);
  // What was appended is text of its own, even where it is like the beginning of this one.
  if (!end.appended) {
    if (whole.starts_with(after)) return after.size();
    // The stop string stands later in it, and the answer has what stands before.
    for (size_t fed = std::min(tail.size(), whole.size()); fed >= std::max(end.after, suffix);
         --fed) {
      if (tail.ends_with(whole.substr(0, fed))) return fed;
    }
  }
  return after.ends_with(whole.substr(0, suffix)) ? suffix : 0;
}

bool BeginsCharacter(std::string_view text, size_t at) {
  return at == text.size() || (static_cast<unsigned char>(text[at]) & 0xC0) != 0x80;
}

}  // namespace

std::string UnfedText(const AnswerEnd& end, std::string_view suffix, std::string_view text) {
  std::string whole(suffix);
  whole += text;
  const size_t fed = Fed(end, whole, suffix.size());
  // Half a character cannot be fed.
  return BeginsCharacter(whole, fed) ? whole.substr(fed) : whole;
}

}  // namespace tvq
