// Sessions as the gateway and `tvq --json` tell them. Times are seconds since 1970.
#ifndef TVQ_CLIENT_JSON_SESSION_JSON_H_
#define TVQ_CLIENT_JSON_SESSION_JSON_H_

#include <nlohmann/json.hpp>

#include "tvq/v1/session.pb.h"

namespace tvq::client {

using OrderedJson = nlohmann::ordered_json;

OrderedJson ToJson(const v1::Session& session);
OrderedJson ToJson(const v1::SessionPosition& position);

// device, host or durable
const char* TierName(v1::SessionTier tier);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_JSON_SESSION_JSON_H_
