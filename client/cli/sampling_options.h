#ifndef TVQ_CLIENT_CLI_SAMPLING_OPTIONS_H_
#define TVQ_CLIENT_CLI_SAMPLING_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/flags.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::cli {

// SamplingParams as flags. What is not given is not sent: the server's defaults hold, and its
// checks.
class SamplingOptions {
 public:
  // `samples`: how many there may be is an option, too.
  void AddTo(flags::Command command, bool samples = true);
  // Whether what was asked for would be shown.
  absl::Status CheckShown(bool as_json) const;
  void Fill(v1::SamplingParams* params) const;

 private:
  std::optional<float> temperature_, top_p_, min_p_;
  std::optional<float> presence_penalty_, frequency_penalty_, repetition_penalty_;
  std::optional<int32_t> top_k_, max_tokens_, min_tokens_, logprobs_, prompt_logprobs_, n_;
  std::optional<uint64_t> seed_;
  std::vector<std::string> stop_;
  std::vector<int32_t> stop_token_ids_, allowed_token_ids_;
  std::vector<std::string> logit_bias_;  // ID=BIAS
  bool include_stop_ = false, ignore_eos_ = false, echo_ = false, limit_to_context_ = false;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_SAMPLING_OPTIONS_H_
