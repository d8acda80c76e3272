#ifndef TVQ_CLIENT_GATEWAY_API_SESSIONS_JSON_H_
#define TVQ_CLIENT_GATEWAY_API_SESSIONS_JSON_H_

#include "client/gateway/api/models_json.h"
#include "tvq/v1/session.pb.h"

namespace tvq::gateway {

OrderedJson ToJson(const v1::Session& session);
OrderedJson ToJson(const v1::SessionPosition& position);

// device, host or durable
const char* TierName(v1::SessionTier tier);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_SESSIONS_JSON_H_
