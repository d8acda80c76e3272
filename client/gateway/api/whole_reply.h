// Answers in one piece, within the memory that there is for them.
#ifndef TVQ_CLIENT_GATEWAY_API_WHOLE_REPLY_H_
#define TVQ_CLIENT_GATEWAY_API_WHOLE_REPLY_H_

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/aside.h"
#include "client/gateway/api/services.h"
#include "client/gateway/bodies/events.h"

namespace tvq::gateway {

// Bytes of memory for each byte on the wire while the JSON is made: of ids, eight as numbers, whose
// array doubles, and four as text; of text, itself and six for each control character; of sessions,
// as objects.
inline constexpr size_t kIdsMemory = 12;
inline constexpr size_t kTextMemory = 8;
inline constexpr size_t kObjectsMemory = 24;

inline ApiError NoMemory(const Exchange& exchange, const char* advice = "") {
  return ToApiError(absl::ResourceExhaustedError(absl::StrCat(exchange.MemoryFull(), advice)));
}

// In no more memory than it needs.
inline std::string Fitted(std::string text) {
  text.shrink_to_fit();
  return text;
}

// Sends JSON that is all that is left of the request's answer in memory.
inline asio::awaitable<void> RespondJson(Exchange& exchange, std::string json, int status = 200) {
  Response response = exchange.HoldInstead(json.size()) ? JsonResponse(std::move(json), status)
                                                        : ErrorResponse(NoMemory(exchange));
  co_await exchange.Respond(std::move(response));
}

// Answers with the JSON that `write` makes of the server's `reply`, of which nothing is kept while
// the client reads.
template <typename Reply, typename Write>
asio::awaitable<void> RespondWith(Services& services, Exchange& exchange, Reply reply,
                                  size_t memory_per_byte, Write write, int status = 200) {
  const size_t bytes = reply.ByteSizeLong();
  if (bytes > kMaxAnswerBytes) {
    co_await exchange.Respond(ErrorResponse(HttpError(
        413, absl::StrCat("the answer would be of more than ", kMaxAnswerBytes, " bytes"))));
    co_return;
  }
  if (!exchange.Hold(bytes * memory_per_byte)) {
    co_await exchange.Respond(ErrorResponse(NoMemory(exchange)));
    co_return;
  }
  const auto make = [&] { return Fitted(write(std::as_const(reply))); };
  std::string json = co_await Aside(services.beside, exchange, bytes, make);
  reply = Reply();
  co_await RespondJson(exchange, std::move(json), status);
}

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_WHOLE_REPLY_H_
