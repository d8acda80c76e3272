// What an answer must be, by the names that OpenAI and vLLM have for it.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_OUTPUT_FORM_H_
#define TVQ_CLIENT_GATEWAY_BODIES_OUTPUT_FORM_H_

#include <string_view>

#include "client/gateway/bodies/json_body.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// response_format, guided_json, guided_regex, guided_choice, guided_grammar, and structured_outputs
// with json, json_object, regex, choice and grammar: as json_schema, regex, lark or choice. At most
// one may be given, and none beside those four.
// `body`: the text of the fields, in which a schema's members have their order, which is that of
// the answer's.
void ReadOutputForm(std::string_view body, Fields& fields, v1::SamplingParams* sampling);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_OUTPUT_FORM_H_
