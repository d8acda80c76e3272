#include "client/gateway/bodies/completions_request.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/gateway/bodies/json_body.h"
#include "client/gateway/bodies/output_form.h"
#include "client/gateway/bodies/sampling.h"

namespace tvq::gateway {
namespace {

// What OpenAI's service has and this server does not.
void RefuseOthers(Fields& fields, int32_t n) {
  if (const auto suffix = fields.String("suffix"); suffix && !suffix->empty()) {
    fields.Fail("suffix", "must be left out: these models only continue a text");
  }
  if (const auto best_of = fields.Int32("best_of"); best_of && *best_of != n) {
    fields.Fail("best_of", absl::StrCat("is ", *best_of, ", must be n, ", n,
                                        ", or be left out: all samples are shown"));
  }
}

}  // namespace

absl::StatusOr<CompletionsRequest> ParseCompletions(std::string_view body,
                                                    std::string_view idempotency_key) {
  absl::StatusOr<Json> json = ParseObject(body);
  if (!json.ok()) return json.status();
  Fields fields(*json);
  CompletionsRequest request;
  request.model = fields.String("model").value_or("");
  v1::GenerateRequest call;
  call.set_model(request.model);
  call.set_priority(fields.Int32("priority").value_or(0));
  ReadSpecialTokens(fields, &call);
  v1::SamplingParams* const sampling = call.mutable_sampling();
  ReadSampling(fields, sampling);
  ReadOutputForm(body, fields, sampling);
  if (const auto max_tokens = fields.Int32("max_tokens")) sampling->set_max_tokens(*max_tokens);
  if (const auto logprobs = fields.Int32("logprobs")) sampling->set_logprobs(*logprobs);
  sampling->set_echo(fields.Bool("echo").value_or(false));
  request.n = SampleCount(*sampling);
  request.echo = sampling->echo();
  request.logprobs = sampling->has_logprobs();
  request.prompt_logprobs = sampling->has_prompt_logprobs();
  if (request.echo && request.logprobs && !request.prompt_logprobs) {
    sampling->set_prompt_logprobs(sampling->logprobs());
  }
  const StreamOptions options = ReadStream(fields);
  request.stream = options.stream;
  request.include_usage = options.include_usage;
  request.return_token_ids = fields.Bool("return_token_ids").value_or(false);
  ReadSession(fields, idempotency_key, &call);
  RefuseOthers(fields, request.n);
  const bool has_session = call.has_session();
  if (const Json* const prompt = fields.Find("prompt")) {
    request.is_list = HasSeveral(*prompt);
    ReadInputs(fields, "prompt", kMaxPrompts, std::move(call), &request.calls);
  } else {
    // Else a conversation would begin with nothing.
    if (fields.Has("messages")) {
      fields.Fail("prompt", "must be given; messages are for /v1/chat/completions");
    }
    request.calls.push_back(std::move(call));
  }
  if (has_session && request.calls.size() > 1) {
    fields.Fail("session_id", "must be left out where there are several prompts; fork the session");
  }
  if (!fields.status().ok()) return fields.status();
  return request;
}

ApiError ToCompletionsError(const absl::Status& status, const CompletionsRequest& request,
                            size_t call) {
  const std::string prompt = request.is_list ? absl::StrCat("prompt[", call, "]") : "prompt";
  FieldNames names = SessionFieldNames();
  names.push_back({"text", prompt});
  names.push_back({"token_ids", prompt});
  if (!request.prompt_logprobs) names.push_back({"prompt_logprobs", "logprobs"});  // of echo
  return ToApiError(status, names);
}

}  // namespace tvq::gateway
