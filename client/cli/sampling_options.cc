#include "client/cli/sampling_options.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

constexpr char kSamplingGroup[] = "Sampling";

// "5=-1.5" -> id and bias.
bool ParseBias(const std::string& text, int32_t* id, float* bias) {
  const size_t equals = text.find('=');
  return equals != std::string::npos && absl::SimpleAtoi(text.substr(0, equals), id) &&
         absl::SimpleAtof(text.substr(equals + 1), bias);
}

std::string ProblemWithBias(const std::string& text) {
  int32_t id;
  float bias;
  return ParseBias(text, &id, &bias)
             ? ""
             : "\"" + text + "\" is not ID=BIAS, two numbers such as 5=-1.5";
}

}  // namespace

void SamplingOptions::AddTo(flags::Command command, bool samples) {
  const auto add = [&](const char* name, auto& value, const char* help) {
    return command.Add(name, value, help).Group(kSamplingGroup);
  };
  add("--max-tokens", max_tokens_, "Tokens to generate");
  add("--temperature", temperature_, "0: always the most likely token");
  command.AddBits("--seed", seed_, "The same seed gives the same text").Group(kSamplingGroup);
  add("--top-k", top_k_, "Only the k most likely tokens; 0: all");
  add("--top-p", top_p_, "Only the most likely tokens that reach this probability");
  add("--min-p", min_p_, "Only tokens at least this fraction as likely as the most likely");
  add("--presence-penalty", presence_penalty_, "Against tokens generated already");
  add("--frequency-penalty", frequency_penalty_, "The same, for each time");
  add("--repetition-penalty", repetition_penalty_, "Against tokens of prompt and output; 1: none");
  add("--stop", stop_, "End before this text; repeatable").OneValueEach();
  add("--stop-token-ids", stop_token_ids_, "End at one of these ids").SplitAt(',');
  add("--min-tokens", min_tokens_, "Do not end before so many tokens");
  add("--allowed-token-ids", allowed_token_ids_, "Only these ids").SplitAt(',');
  add("--logit-bias", logit_bias_, "Added to the logit of an id; repeatable")
      .OneValueEach()
      .TypeName("ID=BIAS")
      .Check(ProblemWithBias);
  add("--logprobs", logprobs_, "With --json: log-probabilities, and so many alternatives");
  add("--prompt-logprobs", prompt_logprobs_, "The same for the prompt");
  if (samples) add("--n", n_, "Independent samples");
  command.AddFlag("--include-stop", include_stop_, "Show the stop text").Group(kSamplingGroup);
  command.AddFlag("--ignore-eos", ignore_eos_, "Go on after the end of a text")
      .Group(kSamplingGroup);
  command.AddFlag("--echo", echo_, "Show the prompt first").Group(kSamplingGroup);
  command
      .AddFlag("--limit-to-context", limit_to_context_,
               "Fewer than --max-tokens where the context has no room for them")
      .Group(kSamplingGroup);
}

absl::Status SamplingOptions::CheckShown(bool as_json) const {
  if (as_json || (!logprobs_ && !prompt_logprobs_)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(logprobs_ ? "--logprobs" : "--prompt-logprobs", ": only --json shows them"));
}

void SamplingOptions::Fill(v1::SamplingParams* p) const {
  if (temperature_) p->set_temperature(*temperature_);
  if (top_p_) p->set_top_p(*top_p_);
  if (min_p_) p->set_min_p(*min_p_);
  if (presence_penalty_) p->set_presence_penalty(*presence_penalty_);
  if (frequency_penalty_) p->set_frequency_penalty(*frequency_penalty_);
  if (repetition_penalty_) p->set_repetition_penalty(*repetition_penalty_);
  if (top_k_) p->set_top_k(*top_k_);
  if (max_tokens_) p->set_max_tokens(*max_tokens_);
  if (min_tokens_) p->set_min_tokens(*min_tokens_);
  if (logprobs_) p->set_logprobs(*logprobs_);
  if (prompt_logprobs_) p->set_prompt_logprobs(*prompt_logprobs_);
  if (n_) p->set_n(*n_);
  if (seed_) p->set_seed(*seed_);
  p->mutable_stop()->Add(stop_.begin(), stop_.end());
  p->mutable_stop_token_ids()->Add(stop_token_ids_.begin(), stop_token_ids_.end());
  p->mutable_allowed_token_ids()->Add(allowed_token_ids_.begin(), allowed_token_ids_.end());
  for (const std::string& text : logit_bias_) {
    int32_t id = 0;
    float bias = 0;
    if (ParseBias(text, &id, &bias)) (*p->mutable_logit_bias())[id] = bias;
  }
  p->set_include_stop_str_in_output(include_stop_);
  p->set_ignore_eos(ignore_eos_);
  p->set_echo(echo_);
  p->set_limit_to_context(limit_to_context_);
}

}  // namespace tvq::cli
