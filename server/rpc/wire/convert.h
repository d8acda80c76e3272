// Between the wire's messages and the engine's requests. Errors are INVALID_ARGUMENT and name the
// field, or as said.
#ifndef TVQ_SERVER_RPC_WIRE_CONVERT_H_
#define TVQ_SERVER_RPC_WIRE_CONVERT_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/engine/request/continuation.h"
#include "server/engine/request/request.h"
#include "server/sessions/record/session_record.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

struct RequestLimits {
  int64_t max_prompt_tokens = 0;  // 0: none
};

// The model served under `name`, or the first if `name` is empty. NOT_FOUND says which there are.
absl::StatusOr<const ServedModel*> FindModel(std::span<const ServedModel> models,
                                             const std::string& name);

// The model of a session. `name`, the request's, must be empty or the session's;
// FAILED_PRECONDITION if this server does not serve it.
absl::StatusOr<const ServedModel*> FindModel(std::span<const ServedModel> models,
                                             const std::string& name, const SessionRecord& session);

// What a request continues.
struct ContextStart {
  enum { kNothing, kUpload, kSession } of = kNothing;
  int64_t position = 0;                                // tokens it holds
  std::optional<AnswerEnd> answer_end = std::nullopt;  // unset: there is no answer
  bool add_special_tokens = true;                      // where the request does not say
  // Of a request with a conversation: the ids that follow.
  std::vector<int32_t> conversation;
};

// Where a session is; null: an empty context without one.
ContextStart StartOf(const SessionRecord* session);

struct ScoreInput {
  Request request;
  int64_t before = 0;  // of the prompt, ids that are fed before what is to be scored
};

// Everything but id, owner, start, deadline, grammar and sink. Fields of the request go before the
// model's generation defaults. The engine checks ranges.
absl::StatusOr<Request> ToRequest(const v1::GenerateRequest& message, const ServedModel& model,
                                  const RequestLimits& limits, const ContextStart& start = {});
absl::StatusOr<ScoreInput> ToRequest(const v1::ScoreRequest& message, const ServedModel& model,
                                     const RequestLimits& limits, const ContextStart& start = {});
absl::StatusOr<Request> ToRequest(const v1::EncodeRequest& message, const ServedModel& model,
                                  const RequestLimits& limits);
absl::StatusOr<Request> ToRequest(const v1::AppendSessionRequest& message, const ServedModel& model,
                                  const RequestLimits& limits, const ContextStart& start);

// The ids of the text of `field`. Without `allow_unknown` a character outside the vocabulary is
// INVALID_ARGUMENT, as is what the tokenizer refuses; the message names the model.
absl::StatusOr<std::vector<int32_t>> TextTokens(std::string_view text, bool allow_unknown,
                                                const ServedModel& model,
                                                const char* field = "text");

// How many of the ids are the token that stands for unknown characters.
int64_t UnknownTokens(std::span<const int32_t> ids, const Tokenizer& tokenizer);

// INVALID_ARGUMENT for text of more bytes than the most tokens allowed could stand for, each being
// as long as the longest: tokenizing it would only show that it is too long.
absl::Status CheckTextSize(int64_t bytes, const Tokenizer& tokenizer, const RequestLimits& limits,
                           const char* field = "text");
absl::Status CheckTokenCount(int64_t count, const RequestLimits& limits, const char* field);
// What can be told before any text is tokenized; ToRequest checks the rest.
absl::Status CheckInputSize(const v1::GenerateRequest& message, const ServedModel& model,
                            const RequestLimits& limits);

// A call's deadline on the engine's clock; the far future stays that.
SteadyTime ToSteady(std::chrono::system_clock::time_point deadline);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_CONVERT_H_
