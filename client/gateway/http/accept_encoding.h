// What a client takes for the body of an answer.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_ACCEPT_ENCODING_H_
#define TVQ_CLIENT_GATEWAY_HTTP_ACCEPT_ENCODING_H_

#include "client/gateway/http/message.h"

namespace tvq::gateway {

// Whether it takes gzip: Accept-Encoding names gzip, or "*", with a weight above 0 (RFC
// 9110, 12.5.3).
bool AcceptsGzip(const Request& request);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_ACCEPT_ENCODING_H_
