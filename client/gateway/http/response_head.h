// Status line and headers of an answer as text.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_RESPONSE_HEAD_H_
#define TVQ_CLIENT_GATEWAY_HTTP_RESPONSE_HEAD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/gateway/http/message.h"

namespace tvq::gateway {

// How the other side finds the end of a body, and what comes after it.
struct Framing {
  std::optional<uint64_t> length;  // of the body
  bool chunked = false;
  bool keep_alive = false;
  bool http10 = false;
};

// Up to the empty line; `more` are headers beside the response's own.
std::string ResponseHead(const Response& response, const std::vector<Header>& more,
                         const Framing& framing);

// Whether a response with this status never has a body.
bool HasNoBody(int status);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_RESPONSE_HEAD_H_
