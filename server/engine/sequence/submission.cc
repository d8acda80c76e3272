#include "server/engine/sequence/submission.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "models/runtime/begin_id.h"

namespace tvq {
namespace {

static_assert(kMaxStopStringBytes <= StopStrings::kMaxBytes);

uint64_t DrawSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

void SortUnique(std::vector<int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// The memory that the request keeps beside its prompt, above what most requests keep, as the number
// of prompt tokens that take as much.
int64_t KeptTokens(const SamplingParams& p) {
  constexpr int64_t kUsual = 4096;
  constexpr int64_t kId = sizeof(int32_t);
  int64_t bytes = std::ssize(p.allowed_token_ids) * kId;
  bytes += std::ssize(p.stop_token_ids) * 2 * kId;  // among the ids that end, too
  bytes += std::ssize(p.logit_bias) * int64_t{sizeof(LogitBias)};
  for (const std::string& stop : p.stop) bytes += std::ssize(stop) * 3;  // with its table
  return std::max<int64_t>(0, bytes - kUsual) / kId;
}

int64_t KeptTokens(const Request& request) {
  const int64_t more = request.purpose == Purpose::kGenerate ? KeptTokens(request.sampling) : 0;
  return std::ssize(request.prompt) + more;
}

// If even an empty queue would not take a request, it is invalid: to try again does not help.
absl::Status CheckFitsQueue(const Request& request, const EngineOptions& limits) {
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  const int64_t most = limits.max_num_queued_tokens;
  if (tokens > most) {
    return Refused(Reason::kContextTooLong, request.prompt_field,
                   absl::StrCat("has ", tokens, " tokens, must have at most ", most,
                                ", the prompt tokens that may wait"));
  }
  const int64_t kept = KeptTokens(request);
  if (kept <= most) return absl::OkStatus();
  return Refused(
      Reason::kValueInvalid, "stop",
      absl::StrCat("with stop_token_ids, allowed_token_ids and logit_bias it counts as ",
                   kept - tokens,
                   " prompt tokens for the memory that they take, and the prompt has ", tokens,
                   "; together they must be at most ", most, ", as many as may wait"));
}

// The states a request may come to hold: what is admitted never has to make room again.
absl::StatusOr<Need> ExactNeed(const Request& request, const Model& model,
                               const EngineOptions& limits, int64_t budget) {
  const int64_t sequences = Sequences(request);
  const int64_t of_owner = request.owner_limits.max_num_admitted_seqs;
  const auto n_above = [&](int64_t limit, const char* what) {
    return Refused(Reason::kValueInvalid, "n",
                   absl::StrCat("value is ", sequences, ", must be at most ", limit, ", ", what));
  };
  if (sequences > limits.max_num_seqs) {
    return n_above(limits.max_num_seqs, "the sequences that compute in one step");
  }
  if (sequences > MaxAdmittedSeqs(limits)) {
    return n_above(MaxAdmittedSeqs(limits), "the sequences that are admitted at once");
  }
  if (of_owner > 0 && sequences > of_owner) {
    return n_above(of_owner, "the sequences of one key or address that are admitted at once");
  }
  const int64_t tokens = MostTokens(request);
  const int64_t each = model.StateBytes(tokens);
  if (each > budget / sequences) {
    return Refused(
        Reason::kRequestTooLarge,
        absl::StrCat("the request needs ", sequences, " x ", each, " bytes of state for ", tokens,
                     " tokens, the whole budget is ", budget, " bytes"));
  }
  return Need{.sequences = sequences,
              .state_bytes = each * sequences,
              .prompt_tokens = KeptTokens(request)};
}

// Every sample gets a copy.
absl::Status CheckEcho(const std::string& text, int32_t n) {
  const auto bytes = static_cast<int64_t>(text.size());
  if (bytes <= kMaxEchoBytes / n) return absl::OkStatus();
  return Refused(Reason::kValueInvalid, "echo",
                 absl::StrCat("the prompt's text has ", bytes, " bytes and n is ", n,
                              "; the product must be at most ", kMaxEchoBytes));
}

absl::Status PrepareGeneration(const Model& model, Submission& s) {
  SamplingParams& p = s.request.sampling;
  if (!p.seed) p.seed = DrawSeed();
  SortUnique(p.stop_token_ids);
  s.eos_ids = EndIds(model.info());
  SortUnique(s.eos_ids);
  s.end_ids = p.stop_token_ids;
  s.end_ids.insert(s.end_ids.end(), s.eos_ids.begin(), s.eos_ids.end());
  SortUnique(s.end_ids);
  if (HasPenalty(p)) {
    for (int32_t id : s.request.prompt) s.counts.AddPrompt(id);
  }
  s.text.emplace(
      model.tokenizer(), std::make_shared<const StopStrings>(std::move(p.stop)),
      p.include_stop_str_in_output,
      s.request.prompt.empty() ? StreamDecoder::Start::kContinuation : StreamDecoder::Start::kText);
  std::string prompt_text = s.text->Prime(s.request.prompt);
  if (!p.echo) return absl::OkStatus();
  s.echo = std::move(prompt_text);
  return CheckEcho(s.echo, p.n);
}

}  // namespace

absl::StatusOr<Submission> Prepare(Request request, const Model& model, const EngineOptions& limits,
                                   int64_t budget) {
  if (auto status = Validate(request, model.info()); !status.ok()) return status;
  if (auto status = CheckFitsQueue(request, limits); !status.ok()) return status;
  auto need = ExactNeed(request, model, limits, budget);
  if (!need.ok()) return need.status();
  Submission s;
  s.request = std::move(request);
  s.need = *need;
  if (s.request.purpose != Purpose::kGenerate) return s;
  if (auto status = PrepareGeneration(model, s); !status.ok()) return status;
  return s;
}

}  // namespace tvq
