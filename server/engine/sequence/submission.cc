#include "server/engine/sequence/submission.h"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

uint64_t DrawSeed() {
  std::random_device device;
  return (static_cast<uint64_t>(device()) << 32) | device();
}

void SortUnique(std::vector<int32_t>& ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

// What an empty queue would not take either is wrong, not early.
absl::Status CheckFitsQueue(const Request& request, const EngineOptions& limits) {
  const auto tokens = static_cast<int64_t>(request.prompt.size());
  if (tokens <= limits.max_num_queued_tokens) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(request.prompt_field, ": has ", tokens, " tokens, must have at most ",
                   limits.max_num_queued_tokens, ", the prompt tokens that may wait"));
}

// The states a request may come to hold: what is admitted never has to make room again.
absl::StatusOr<Need> ExactNeed(const Request& request, const Model& model,
                               const EngineOptions& limits, int64_t budget) {
  const int64_t sequences = Sequences(request);
  const int64_t of_owner = request.owner_limits.max_num_admitted_seqs;
  const auto n_above = [&](int64_t limit, const char* what) {
    return absl::InvalidArgumentError(
        absl::StrCat("n: value is ", sequences, ", must be at most ", limit, ", ", what));
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
    return absl::ResourceExhaustedError(
        absl::StrCat("the request needs ", sequences, " x ", each, " bytes of state for ", tokens,
                     " tokens, the whole budget is ", budget, " bytes"));
  }
  return Need{.sequences = sequences,
              .state_bytes = each * sequences,
              .prompt_tokens = static_cast<int64_t>(request.prompt.size())};
}

// Every sample gets a copy.
absl::Status CheckEcho(const std::string& text, int32_t n) {
  const auto bytes = static_cast<int64_t>(text.size());
  if (bytes <= kMaxEchoBytes / n) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("echo: the prompt's text has ", bytes,
                                                 " bytes and n is ", n,
                                                 "; the product must be at most ", kMaxEchoBytes));
}

absl::Status PrepareGeneration(const Model& model, Submission& s) {
  SamplingParams& p = s.request.sampling;
  if (!p.seed) p.seed = DrawSeed();
  SortUnique(p.stop_token_ids);
  s.end_ids = p.stop_token_ids;
  if (const auto eos = model.info().config.eos_token_id) s.end_ids.push_back(*eos);
  SortUnique(s.end_ids);
  if (UsesCounts(p)) {
    for (int32_t id : s.request.prompt) s.counts.AddPrompt(id);
  }
  s.text.emplace(
      model.tokenizer(), std::make_shared<const StopStrings>(p.stop), p.include_stop_str_in_output,
      s.request.prompt.empty() ? StreamDecoder::Start::kContinuation : StreamDecoder::Start::kText);
  std::string prompt_text = s.text->Prime(s.request.prompt);
  if (!p.echo) return absl::OkStatus();
  s.echo = std::move(prompt_text);
  return CheckEcho(s.echo, p.n);
}

}  // namespace

bool UsesCounts(const SamplingParams& p) {
  return p.repetition_penalty != 1 || p.presence_penalty != 0 || p.frequency_penalty != 0;
}

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
