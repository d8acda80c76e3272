#ifndef TVQ_CLIENT_GATEWAY_API_MODELS_JSON_H_
#define TVQ_CLIENT_GATEWAY_API_MODELS_JSON_H_

#include <cstdint>
#include <nlohmann/json.hpp>

#include "tvq/v1/model.pb.h"

namespace tvq::gateway {

using OrderedJson = nlohmann::ordered_json;

// OpenAI's model object, and all that the server says beside it.
OrderedJson ToJson(const v1::Model& model);
OrderedJson ToJson(const v1::SamplingParams& defaults);
OrderedJson ToJson(const v1::GetServerInfoResponse& info);  // but for its history
OrderedJson HistoryJson(const v1::GetServerInfoResponse& info);

// As one line; what is not UTF-8 becomes U+FFFD.
std::string Dump(const OrderedJson& json);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_MODELS_JSON_H_
