// How a text follows an answer, wherever that ended (GenerateRequest.answer_suffix).
#ifndef TVQ_SERVER_RPC_WIRE_ANSWER_SUFFIX_H_
#define TVQ_SERVER_RPC_WIRE_ANSWER_SUFFIX_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "server/engine/request/continuation.h"

namespace tvq {

// Bytes: so many can be recognised in a context.
inline constexpr size_t kMaxAnswerSuffix = AnswerEnd::kMaxTail;

// What is left to feed of `suffix` and `text` in a context that ends so. An answer that happens to
// end like the suffix is closed all the same, as it would be if the conversation were fed anew.
std::string UnfedText(const AnswerEnd& end, std::string_view suffix, std::string_view text);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_ANSWER_SUFFIX_H_
