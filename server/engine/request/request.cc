#include "server/engine/request/request.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "kernels/ops/sample.h"
#include "models/runtime/begin_id.h"

namespace tvq {
namespace {

template <typename T>
absl::Status Wrong(std::string_view field, const T& value, std::string_view must) {
  return Refused(Reason::kValueInvalid, field,
                 absl::StrCat("value is ", value, ", must be ", std::string(must)));
}

absl::Status CheckCounts(const SamplingParams& p) {
  // A model may have a default for it, which says nothing of requests that want no tokens.
  if (p.max_tokens > 0 && p.min_tokens > p.max_tokens) {
    return Wrong("min_tokens", p.min_tokens,
                 absl::StrCat("in [0, max_tokens = ", p.max_tokens, "]"));
  }
  if (p.n > 1 && p.temperature < kGreedyTemperature) {
    return Wrong("n", p.n,
                 absl::StrCat("1 when temperature is below ", kGreedyTemperature,
                              ", for all samples would be equal"));
  }
  return absl::OkStatus();
}

absl::Status CheckStops(const SamplingParams& p) {
  if (static_cast<int64_t>(p.stop.size()) > kMaxStopStrings) {
    return Refused(
        Reason::kValueInvalid, "stop",
        absl::StrCat("has ", p.stop.size(), " strings, must be at most ", kMaxStopStrings));
  }
  for (size_t i = 0; i < p.stop.size(); ++i) {
    const auto size = static_cast<int64_t>(p.stop[i].size());
    if (size == 0 || size > kMaxStopStringBytes) {
      return Refused(Reason::kValueInvalid, absl::StrCat("stop[", i, "]"),
                     absl::StrCat("has ", size, " bytes, must have 1 to ", kMaxStopStringBytes));
    }
  }
  return absl::OkStatus();
}

bool IsId(int32_t id, int64_t vocab) { return id >= 0 && id < vocab; }

absl::Status WrongId(std::string_view field, int32_t id, int64_t vocab) {
  return Refused(
      Reason::kValueInvalid, field,
      absl::StrCat("token id is ", id, ", must be in [0, ", vocab, "), the model's vocabulary"));
}

// Longer lists could only repeat themselves, at the loop's expense.
absl::Status CheckListSize(std::string_view field, size_t size, int64_t vocab) {
  if (static_cast<int64_t>(size) <= vocab) return absl::OkStatus();
  return Refused(Reason::kValueInvalid, field,
                 absl::StrCat("has ", size, " entries, must have at most ", vocab,
                              ", one for each id of the vocabulary"));
}

absl::Status CheckIds(std::string_view field, const std::vector<int32_t>& ids, int64_t vocab) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (IsId(ids[i], vocab)) continue;
    return WrongId(absl::StrCat(std::string(field), "[", i, "]"), ids[i], vocab);
  }
  return absl::OkStatus();
}

absl::Status CheckIdSet(std::string_view field, const std::vector<int32_t>& ids, int64_t vocab) {
  if (auto status = CheckListSize(field, ids.size(), vocab); !status.ok()) return status;
  return CheckIds(field, ids, vocab);
}

absl::Status CheckLogitBias(const SamplingParams& p, int64_t vocab) {
  if (auto s = CheckListSize("logit_bias", p.logit_bias.size(), vocab); !s.ok()) return s;
  // A map has no order: its entries are named by their ids.
  const auto name = [](const LogitBias& entry) { return absl::StrCat("logit_bias.", entry.id); };
  for (const LogitBias& entry : p.logit_bias) {
    if (!IsId(entry.id, vocab)) return WrongId(name(entry), entry.id, vocab);
    if (!(std::abs(entry.bias) <= 100)) return Wrong(name(entry), entry.bias, "in [-100, 100]");
  }
  return absl::OkStatus();
}

// With min_tokens the end ids are banned; something allowed must be left.
absl::Status CheckAllowed(const SamplingParams& p, const std::vector<int32_t>& ends_of_sequence) {
  if (p.allowed_token_ids.empty() || p.min_tokens == 0) return absl::OkStatus();
  std::set<int32_t> stops(p.stop_token_ids.begin(), p.stop_token_ids.end());
  stops.insert(ends_of_sequence.begin(), ends_of_sequence.end());
  const auto ends = [&](int32_t id) { return stops.contains(id); };
  if (!std::all_of(p.allowed_token_ids.begin(), p.allowed_token_ids.end(), ends)) {
    return absl::OkStatus();
  }
  return Refused(Reason::kValuesConflict, "allowed_token_ids",
                 "every id ends the output, must allow another one while min_tokens is above 0");
}

absl::Status CheckLength(const Request& request, const ModelInfo& model) {
  const int64_t limit = model.config.max_position;
  if (limit == 0) return absl::OkStatus();
  const int64_t before = ContextBefore(request);
  const auto prompt = static_cast<int64_t>(request.prompt.size());
  const bool generates = Samples(request);
  const int64_t max_tokens = generates ? request.sampling.max_tokens : 0;
  if (before + prompt + max_tokens <= limit) return absl::OkStatus();
  if (before == 0 && !generates) {
    return Refused(Reason::kContextTooLong, request.prompt_field,
                   absl::StrCat("has ", prompt, " tokens, must be at most ", limit,
                                ", the model's context length"));
  }
  std::string more;
  if (max_tokens == 1) {
    more = ", and one more is to be generated";  // what is left of a default
  } else if (max_tokens > 0 && max_tokens == request.sampling.min_tokens) {
    more = absl::StrCat(", and min_tokens is ", max_tokens);  // to which a default was raised
  } else if (generates) {
    more = absl::StrCat(", and max_tokens is ", max_tokens);
  }
  return Refused(
      Reason::kContextTooLong, request.prompt_field,
      absl::StrCat("has ", prompt, " tokens",
                   before > 0 ? absl::StrCat(", the context before it has ", before) : "", more,
                   "; together they must be at most ", limit, ", the model's context length"));
}

// Where a request starts is not the client's to say, but what a snapshot held may be wrong.
absl::Status CheckStart(const Request& request, const ModelInfo& model) {
  if (!request.start) return absl::OkStatus();
  const StartPoint& start = *request.start;
  const int64_t vocab = model.config.vocab_size;
  if (auto s = CheckIds("start.pending", start.pending, vocab); !s.ok()) return s;
  if (start.logits && static_cast<int64_t>(start.logits->size()) != vocab) {
    return Refused(Reason::kValueInvalid, "start.logits",
                   absl::StrCat("has ", start.logits->size(), " numbers, must have ", vocab));
  }
  if (start.position < 0 || (start.position > 0) != (start.source != nullptr)) {
    return Wrong("start.position", start.position, "above 0 with a source, 0 without one");
  }
  if (start.prompt_tokens > 0) {
    if (start.position != start.prompt_tokens || !start.pending.empty() ||
        start.prompt_tokens >= static_cast<int64_t>(request.prompt.size())) {
      return Wrong("start.prompt_tokens", start.prompt_tokens,
                   "fewer than the prompt has, and all that the state holds");
    }
    // What the state was fed has no log-probabilities any more.
    if (Scores(request)) return Wrong("start.prompt_tokens", start.prompt_tokens, "0 to score");
  }
  if (Scores(request) && start.position > 0 && start.pending.empty() && !start.logits) {
    return Refused(Reason::kValueInvalid, "start.logits",
                   "are missing, must predict the first token");
  }
  return absl::OkStatus();
}

absl::Status CheckPrompt(const Request& request, const ModelInfo& model) {
  if (!request.prompt.empty()) {
    return CheckIds(request.prompt_field, request.prompt, model.config.vocab_size);
  }
  if (request.start && request.purpose != Purpose::kScore &&
      (!request.start->pending.empty() || request.start->logits)) {
    return absl::OkStatus();
  }
  return Refused(Reason::kValueMissing, request.prompt_field,
                 "is empty, must have at least one token");
}

absl::Status CheckMarks(const Request& request, const ModelInfo& model) {
  int64_t last = 0;
  for (const int64_t mark : request.prefix_marks) {
    if (mark <= last || mark % model.config.prefill_chunk != 0 ||
        mark > static_cast<int64_t>(request.prompt.size()) || ContextBefore(request) != 0) {
      return Wrong("prefix_marks", mark,
                   "ascending multiples of prefill_chunk inside a prompt that begins the context");
    }
    last = mark;
  }
  return absl::OkStatus();
}

absl::Status CheckModel(const Request& request, const ModelInfo& model) {
  if ((request.purpose == Purpose::kEncode) != model.predicts) return absl::OkStatus();
  return Refused(Reason::kModelUnfit, "model",
                 absl::StrCat("a ", model.family,
                              model.predicts ? " encodes nothing; it generates and scores"
                                             : " encodes; it predicts no tokens"));
}

absl::Status CheckPurpose(const Request& request, const ModelInfo& model) {
  switch (request.purpose) {
    case Purpose::kGenerate:
      if (request.keep && request.sampling.n != 1) {
        return Wrong("n", request.sampling.n, "1 where the state is kept");
      }
      return Validate(request.sampling, model);
    case Purpose::kScore:
    case Purpose::kAppend:
    case Purpose::kEncode:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Validate(const SamplingParams& params, const ModelInfo& model) {
  const int64_t vocab = model.config.vocab_size;
  for (const absl::Status& status :
       {CheckCounts(params), CheckStops(params),
        CheckIdSet("stop_token_ids", params.stop_token_ids, vocab),
        CheckIdSet("allowed_token_ids", params.allowed_token_ids, vocab),
        CheckLogitBias(params, vocab), CheckAllowed(params, EndIds(model))}) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status Validate(const Request& request, const ModelInfo& model) {
  // In order, for each relies on those before.
  for (const auto check :
       {CheckModel, CheckPrompt, CheckPurpose, CheckStart, CheckLength, CheckMarks}) {
    if (auto status = check(request, model); !status.ok()) return status;
  }
  return absl::OkStatus();
}

}  // namespace tvq
