#include "client/gateway/bodies/embeddings.h"

#include <bit>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "client/gateway/bodies/json_body.h"
#include "client/gateway/bodies/json_text.h"

namespace tvq::gateway {
namespace {

static_assert(std::endian::native == std::endian::little, "base64 is of the bytes as they lie");

// Text of a vector's number: a sign, nine digits, a point, an exponent or zeros, a comma.
constexpr size_t kNumberBytes = 16;

using Vector = google::protobuf::RepeatedField<float>;

void AppendBase64(const Vector& vector, std::string* out) {
  const absl::string_view bytes(reinterpret_cast<const char*>(vector.data()),
                                static_cast<size_t>(vector.size()) * sizeof(float));
  absl::StrAppend(out, "\"", absl::Base64Escape(bytes), "\"");
}

void AppendNumbers(const Vector& vector, std::string* out) {
  out->push_back('[');
  for (int i = 0; i < vector.size(); ++i) {
    if (i > 0) out->push_back(',');
    AppendJsonNumber(vector[i], out);
  }
  out->push_back(']');
}

}  // namespace

absl::StatusOr<EmbeddingsRequest> ParseEmbeddings(std::string_view body) {
  absl::StatusOr<Json> json = ParseObject(body);
  if (!json.ok()) return json.status();
  Fields fields(*json);
  EmbeddingsRequest request;
  request.model = fields.String("model").value_or("");
  const std::string format = fields.String("encoding_format").value_or("float");
  request.base64 = format == "base64";
  if (!request.base64 && format != "float") {
    fields.Fail("encoding_format", "must be float or base64");
  }
  request.dimensions = fields.Int32("dimensions");
  const Json* const input = fields.Find("input");
  if (input == nullptr) {
    fields.Fail("input", "must be given");
  } else {
    v1::EncodeRequest call;
    call.set_model(request.model);
    call.set_pooling(v1::POOLING_MEAN);
    ReadInputs(fields, "input", kMaxInputs, std::move(call), &request.calls);
  }
  if (!fields.status().ok()) return fields.status();
  request.is_list = HasSeveral(*input);
  return request;
}

absl::Status CheckDimensions(const EmbeddingsRequest& request, int32_t width) {
  if (request.dimensions.value_or(width) == width) return absl::OkStatus();
  return Refused(Reason::kValueInvalid, "dimensions",
                 absl::StrCat("is ", *request.dimensions, ", must be left out or ", width,
                              ", the width of the model's vectors"));
}

ApiError ToEmbeddingsError(const absl::Status& status, const EmbeddingsRequest& request,
                           size_t call) {
  const std::string name = request.is_list ? absl::StrCat("input[", call, "]") : "input";
  return ToApiError(status, {{"text", name}, {"token_ids", name}});
}

std::string EmbeddingsAnswer::ToJson(std::string_view model) const {
  int64_t tokens = 0;
  size_t numbers = 0;
  for (const v1::EncodeResponse& reply : replies_) {
    tokens += reply.tokens();
    numbers += static_cast<size_t>(reply.vectors_size());
  }
  std::string json;
  json.reserve(numbers * (base64_ ? 6 : kNumberBytes));
  json += R"({"object":"list","data":[)";
  for (size_t i = 0; i < replies_.size(); ++i) {
    absl::StrAppend(&json, i == 0 ? "" : ",", R"({"object":"embedding","index":)", i,
                    R"(,"embedding":)");
    const Vector& vector = replies_[i].vectors();
    base64_ ? AppendBase64(vector, &json) : AppendNumbers(vector, &json);
    json.push_back('}');
  }
  json += R"(],"model":)";
  AppendJsonString(model, &json);
  absl::StrAppend(&json, R"(,"usage":{"prompt_tokens":)", tokens, R"(,"total_tokens":)", tokens,
                  "}}");
  return json;
}

}  // namespace tvq::gateway
