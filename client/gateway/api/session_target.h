// What a request says of the session it is about.
#ifndef TVQ_CLIENT_GATEWAY_API_SESSION_TARGET_H_
#define TVQ_CLIENT_GATEWAY_API_SESSION_TARGET_H_

#include "absl/status/status.h"
#include "client/gateway/bodies/errors.h"
#include "client/gateway/bodies/session_requests.h"
#include "client/gateway/http/exchange.h"
#include "client/gateway/http/router.h"

namespace tvq::gateway {

// {id} of the path, and the header Idempotency-Key.
SessionTarget TargetOf(const Exchange& exchange, const PathFields& path);

// The fields of the query; those that cannot be decoded are left out.
QueryMap QueryOf(const Exchange& exchange);

ApiError SessionError(const absl::Status& status);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_SESSION_TARGET_H_
