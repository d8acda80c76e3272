#include "server/rpc/wire/convert.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quoted.h"
#include "base/refusal.h"
#include "models/runtime/begin_id.h"
#include "server/rpc/wire/answer_suffix.h"
#include "server/rpc/wire/conversation.h"
#include "server/rpc/wire/field_ranges.h"
#include "server/rpc/wire/sampling.h"
#include "server/rpc/wire/to_proto.h"

namespace tvq {
namespace {

template <typename Message>
bool AllowsUnknown(const Message&) {
  return false;
}
bool AllowsUnknown(const v1::ScoreRequest& message) { return message.allow_unknown(); }

// Text or ids of a message with a oneof of `text` and `token_ids`; empty if neither is set.
template <typename Message>
absl::StatusOr<std::vector<int32_t>> InputTokens(const Message& message, const ServedModel& model) {
  if (message.has_token_ids()) {
    return std::vector<int32_t>(message.token_ids().ids().begin(), message.token_ids().ids().end());
  }
  if (!message.has_text()) return std::vector<int32_t>();
  return TextTokens(message.text(), AllowsUnknown(message), model);
}

template <typename Message>
const char* InputField(const Message& message) {
  return message.has_token_ids() ? "token_ids" : "text";
}
const char* InputField(const v1::GenerateRequest& message) {
  return message.has_conversation() ? "conversation"
         : message.has_token_ids()  ? "token_ids"
                                    : "text";
}

template <typename Message>
bool HasConversation(const Message&) {
  return false;
}
bool HasConversation(const v1::GenerateRequest& message) { return message.has_conversation(); }

// Here, so that the message names the request's own field.
absl::Status CheckIds(const std::vector<int32_t>& ids, int64_t vocab, const char* field) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab) continue;
    return Refused(Reason::kValueInvalid, absl::StrCat(field, "[", i, "]"),
                   absl::StrCat("token id is ", ids[i], ", must be in [0, ", vocab,
                                "), the model's vocabulary"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> CheckedIds(std::vector<int32_t> ids, const ServedModel& model,
                                                const RequestLimits& limits, const char* field) {
  if (auto status = CheckTokenCount(static_cast<int64_t>(ids.size()), limits, field); !status.ok())
    return status;
  const int64_t vocab = model.model->info().config.vocab_size;
  if (auto status = CheckIds(ids, vocab, field); !status.ok()) return status;
  return ids;
}

template <typename Message>
absl::StatusOr<std::vector<int32_t>> CheckedInput(const Message& message, const ServedModel& model,
                                                  const RequestLimits& limits) {
  auto size = CheckTextSize(std::ssize(message.text()), model.model->tokenizer(), limits);
  if (!size.ok()) return size;
  auto ids = InputTokens(message, model);
  if (!ids.ok()) return ids.status();
  return CheckedIds(*std::move(ids), model, limits, InputField(message));
}

absl::Status CheckAnswerSuffix(const v1::GenerateRequest& message) {
  if (message.answer_suffix().size() > kMaxAnswerSuffix) {
    return Refused(Reason::kValueInvalid, "answer_suffix",
                   absl::StrCat("has ", message.answer_suffix().size(),
                                " bytes, must have at most ", kMaxAnswerSuffix));
  }
  if (message.has_answer_suffix() && (message.has_token_ids() || message.has_conversation())) {
    return Refused(Reason::kValuesConflict, "answer_suffix",
                   absl::StrCat("is set beside ", InputField(message), ", must stand before text"));
  }
  return absl::OkStatus();
}

// The prompt as it goes on from an answer.
absl::StatusOr<std::vector<int32_t>> InputBehind(const AnswerEnd& end,
                                                 const v1::GenerateRequest& message,
                                                 const ServedModel& model,
                                                 const RequestLimits& limits) {
  v1::GenerateRequest prompt;
  prompt.set_text(UnfedText(end, message.answer_suffix(), message.text()));
  auto ids = CheckedInput(prompt, model, limits);
  if (ids.ok()) return ids;
  // The message may tell an offset in the joined text, which the client has not seen. So if one
  // part is wrong by itself, the error of that part is returned.
  if (auto text = CheckedInput(message, model, limits); !text.ok()) return text;
  const auto suffix =
      TextTokens(message.answer_suffix(), /*allow_unknown=*/false, model, "answer_suffix");
  return suffix.ok() ? ids : suffix;
}

// Puts the model's begin id before the tokens of a text that begins the context. True if it did.
template <typename Message>
absl::StatusOr<bool> BeginContext(const Message& message, const ServedModel& model,
                                  const RequestLimits& limits, const ContextStart& start,
                                  std::vector<int32_t>* ids) {
  const bool wanted =
      message.has_add_special_tokens() ? message.add_special_tokens() : start.add_special_tokens;
  if (!wanted || start.position > 0 || message.has_token_ids() || HasConversation(message)) {
    return false;
  }
  if (!AddBosToken(model.model->info(), ids)) return false;
  auto status = CheckTokenCount(static_cast<int64_t>(ids->size()), limits, InputField(message));
  if (!status.ok()) return status;
  return true;
}

// What stands for an empty prompt of an empty context.
absl::StatusOr<int32_t> FirstId(const ServedModel& model, const ContextStart& start,
                                const char* field) {
  if (start.of == ContextStart::kSession) {
    return Refused(Reason::kValueMissing, field,
                   "is empty, must have at least one token, for the session has none");
  }
  const ModelInfo& info = model.model->info();
  if (const auto bos = BosTokenId(info)) return *bos;
  if (const std::vector<int32_t> ends = EndIds(info); !ends.empty()) return ends.front();
  return Refused(
      Reason::kValueMissing, field,
      absl::StrCat("is empty, must have at least one token, for the model \"", model.name,
                   "\" has no bos_token_id or end-of-sequence id to start from"));
}

// Tokens of an answer in a context without an end, where neither request nor model say how many.
constexpr int64_t kEndlessMaxTokens = 4096;

// Cuts max_tokens to what the context leaves; where it is not `given`, it is all of that.
void LimitToContext(const ModelInfo& model, const ContextStart& start, bool given,
                    Request* request) {
  const int64_t context = model.config.max_position;
  if (context == 0 && given) return;
  SamplingParams& sampling = request->sampling;
  const int64_t left =
      context == 0 ? kEndlessMaxTokens
                   : context - start.position - static_cast<int64_t>(request->prompt.size());
  const int64_t most = std::max<int64_t>({left, sampling.min_tokens, 1});
  const int64_t wanted = given ? sampling.max_tokens : std::numeric_limits<int32_t>::max();
  sampling.max_tokens = static_cast<int32_t>(std::min(most, wanted));
}

}  // namespace

absl::StatusOr<const ServedModel*> FindModel(std::span<const ServedModel> models,
                                             const std::string& name) {
  if (name.empty() && !models.empty()) return &models.front();
  for (const ServedModel& model : models) {
    if (model.name == name) return &model;
  }
  const std::string names =
      absl::StrJoin(models, ", ", [](std::string* out, const ServedModel& m) { *out += m.name; });
  return Refused(Reason::kModelUnknown, "model",
                 absl::StrCat("there is no ", Quoted(name), "; this server has: ", names));
}

absl::StatusOr<const ServedModel*> FindModel(std::span<const ServedModel> models,
                                             const std::string& name,
                                             const SessionRecord& session) {
  if (!name.empty() && name != session.model) {
    return Refused(Reason::kValuesConflict, "model",
                   absl::StrCat("is ", Quoted(name), ", must be empty or the session's, ",
                                Quoted(session.model)));
  }
  auto model = FindModel(models, session.model);
  if (model.ok()) return model;
  return Refused(Reason::kModelNotServed, "session",
                 absl::StrCat("is of the model ", Quoted(session.model),
                              ", which this server does not serve"));
}

ContextStart StartOf(const SessionRecord* session) {
  if (session == nullptr) return {};
  return {.of = ContextStart::kSession,
          .position = session->position,
          .answer_end = session->answer_end,
          .add_special_tokens = session->add_special_tokens};
}

absl::StatusOr<std::vector<int32_t>> TextTokens(std::string_view text, bool allow_unknown,
                                                const ServedModel& model, const char* field) {
  const Tokenizer& tokenizer = model.model->tokenizer();
  // A request may have named none.
  const std::string of_model = absl::StrCat("; the model is ", Quoted(model.name));
  absl::StatusOr<std::vector<int32_t>> ids = tokenizer.Encode(text);
  if (!ids.ok()) {
    return Refused({.reason = RefusalOf(ids.status()).reason, .field = field},
                   absl::StrCat(ids.status().message(), of_model));
  }
  if (allow_unknown) return ids;
  const absl::Status known = tokenizer.CheckKnown(text, *ids);
  if (known.ok()) return ids;
  return Refused(
      Reason::kValueInvalid, field,
      absl::StrCat(known.message(),
                   "; the text must be without it, or be given as token ids; with allow_unknown, "
                   "where texts are tokenized or scored, it is read as the unknown token",
                   of_model));
}

int64_t UnknownTokens(std::span<const int32_t> ids, const Tokenizer& tokenizer) {
  const std::optional<int32_t> unknown = tokenizer.unknown_token();
  return unknown ? std::count(ids.begin(), ids.end(), *unknown) : 0;
}

absl::Status CheckTextSize(int64_t bytes, const Tokenizer& tokenizer, const RequestLimits& limits,
                           const char* field) {
  if (limits.max_prompt_tokens == 0 || bytes <= limits.max_prompt_tokens) return absl::OkStatus();
  size_t longest = 4;  // an unknown token stands for any character
  for (int32_t id = 0; id < tokenizer.vocab_size(); ++id) {
    longest = std::max(longest, tokenizer.TokenBytes(id).size());
  }
  if (bytes / static_cast<int64_t>(longest) <= limits.max_prompt_tokens) return absl::OkStatus();
  return Refused(Reason::kContextTooLong, field,
                 absl::StrCat("has ", bytes, " bytes, more than ", limits.max_prompt_tokens,
                              " tokens, the server's limit, can stand for, a token being at most ",
                              longest, " bytes"));
}

absl::Status CheckTokenCount(int64_t count, const RequestLimits& limits, const char* field) {
  if (limits.max_prompt_tokens == 0 || count <= limits.max_prompt_tokens) return absl::OkStatus();
  return Refused(Reason::kContextTooLong, field,
                 absl::StrCat("has ", count, " tokens, must have at most ",
                              limits.max_prompt_tokens, ", the server's limit"));
}

absl::Status CheckInputSize(const v1::GenerateRequest& message, const ServedModel& model,
                            const RequestLimits& limits) {
  if (message.has_conversation()) return CheckConversation(message.conversation(), model, limits);
  auto status = CheckTextSize(std::ssize(message.text()), model.model->tokenizer(), limits);
  if (!status.ok() || !message.has_token_ids()) return status;
  return CheckTokenCount(message.token_ids().ids_size(), limits, "token_ids");
}

absl::StatusOr<Request> ToRequest(const v1::GenerateRequest& message, const ServedModel& model,
                                  const RequestLimits& limits, const ContextStart& start) {
  if (auto status = CheckAnswerSuffix(message); !status.ok()) return status;
  auto prompt = message.has_conversation()
                    ? CheckedIds(start.conversation, model, limits, "conversation")
                : message.has_answer_suffix() && start.answer_end
                    ? InputBehind(*start.answer_end, message, model, limits)
                    : CheckedInput(message, model, limits);
  if (!prompt.ok()) return prompt.status();
  const auto begun = BeginContext(message, model, limits, start, &*prompt);
  if (!begun.ok()) return begun.status();
  if (prompt->empty() && start.position == 0 && message.has_conversation()) {
    return Refused(Reason::kValueMissing, "conversation",
                   "the template writes nothing of it, must have at least one token");
  }
  if (prompt->empty() && start.position == 0) {
    const auto first = FirstId(model, start, InputField(message));
    if (!first.ok()) return first.status();
    prompt->push_back(*first);
  }
  Request request;
  request.model = model.name;
  request.priority = message.priority();
  request.prompt = *std::move(prompt);
  request.prompt_field = InputField(message);
  const ModelInfo& info = model.model->info();
  auto params = ToSampling(message.sampling(), info.generation);
  if (!params.ok()) return params.status();
  request.sampling = *std::move(params);
  const bool is_default = !message.sampling().has_max_tokens();
  // A default gives way to what was asked for.
  SamplingParams& sampling = request.sampling;
  if (is_default) sampling.max_tokens = std::max(sampling.max_tokens, sampling.min_tokens);
  const bool asked = message.sampling().limit_to_context();
  if (asked || is_default) {
    const bool to_the_end = asked && is_default && !info.generation.numbers.contains("max_tokens");
    LimitToContext(info, start, !to_the_end, &request);
  }
  if (start.of != ContextStart::kNothing && request.sampling.n != 1) {
    return Refused(Reason::kValueInvalid, "n",
                   absl::StrCat("is ", request.sampling.n,
                                ", must be 1 for a state that is kept; fork the session for more"));
  }
  return request;
}

absl::StatusOr<ScoreInput> ToRequest(const v1::ScoreRequest& message, const ServedModel& model,
                                     const RequestLimits& limits, const ContextStart& start) {
  if (auto status = CheckRanges(message); !status.ok()) return status;
  auto ids = CheckedInput(message, model, limits);
  if (!ids.ok()) return ids.status();
  if (ids->empty()) {
    return Refused(Reason::kValueMissing, InputField(message),
                   "is empty, must have at least one token to score");
  }
  if (message.prepend_eos()) {
    const std::vector<int32_t> ends = EndIds(model.model->info());
    if (ends.empty()) {
      return Refused(Reason::kValueInvalid, "prepend_eos",
                     absl::StrCat("must be false, for the model \"", model.name,
                                  "\" has no end-of-sequence id"));
    }
    ids->insert(ids->begin(), ends.front());
  }
  const auto begun = message.prepend_eos() ? absl::StatusOr<bool>(true)
                                           : BeginContext(message, model, limits, start, &*ids);
  if (!begun.ok()) return begun.status();
  ScoreInput input{.before = *begun ? 1 : 0};
  Request& request = input.request;
  request.model = model.name;
  request.priority = message.priority();
  request.prompt = *std::move(ids);
  request.prompt_field = InputField(message);
  request.purpose = Purpose::kScore;
  request.sampling.prompt_logprobs = message.logprobs();
  return input;
}

absl::StatusOr<Request> ToRequest(const v1::EncodeRequest& message, const ServedModel& model,
                                  const RequestLimits& limits) {
  if (message.pooling() != v1::POOLING_UNSPECIFIED && message.pooling() != v1::POOLING_MEAN) {
    return Refused(Reason::kValueInvalid, "pooling",
                   absl::StrCat("is ", static_cast<int>(message.pooling()),
                                ", must be POOLING_UNSPECIFIED or POOLING_MEAN"));
  }
  auto ids = CheckedInput(message, model, limits);
  if (!ids.ok()) return ids.status();
  Request request;
  request.model = model.name;
  request.prompt = *std::move(ids);
  request.prompt_field = InputField(message);
  request.purpose = Purpose::kEncode;
  request.mean = message.pooling() == v1::POOLING_MEAN;
  return request;
}

absl::StatusOr<Request> ToRequest(const v1::AppendSessionRequest& message, const ServedModel& model,
                                  const RequestLimits& limits, const ContextStart& start) {
  auto ids = CheckedInput(message, model, limits);
  if (!ids.ok()) return ids.status();
  if (message.has_text()) {
    const auto begun = BeginContext(message, model, limits, start, &*ids);
    if (!begun.ok()) return begun.status();
  }
  if (ids->empty()) {
    return Refused(Reason::kValueMissing, InputField(message),
                   "is empty, must have at least one token to append");
  }
  Request request;
  request.model = model.name;
  request.purpose = Purpose::kAppend;
  request.prompt = *std::move(ids);
  request.prompt_field = InputField(message);
  return request;
}

SteadyTime ToSteady(std::chrono::system_clock::time_point deadline) {
  using std::chrono::system_clock;
  constexpr auto kFar = std::chrono::hours(24 * 365);
  const auto now = system_clock::now();
  if (deadline - kFar >= now) return SteadyTime::max();
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<SteadyTime::duration>(deadline - now);
}

}  // namespace tvq
