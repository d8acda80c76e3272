#ifndef TVQ_CLIENT_CLI_IO_OUTPUT_H_
#define TVQ_CLIENT_CLI_IO_OUTPUT_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "client/cpp/call.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::cli {

// What came for one sample.
struct Sample {
  std::string text;
  std::vector<int32_t> token_ids;
  nlohmann::json logprobs = nlohmann::json::array();
  std::string finish_reason;
  nlohmann::json stop_reason;  // null, a string or an id
};

// Collects the stream of a Generate call, and prints it to stdout as it comes. Made right before
// the call, from when on it counts time.
class Output {
 public:
  enum class Printed : uint8_t {
    kText,     // each piece of text
    kSamples,  // each sample that has ended, as an object in a line of its own
    kNothing
  };
  explicit Output(Printed printed) : printed_(printed) {}

  // Prints what this makes of each piece of text instead.
  void ShowAs(std::function<std::string(const std::string&)> shown) { shown_ = std::move(shown); }

  // An error where its text cannot be written.
  absl::Status Add(const v1::GenerateResponse& response);
  // All of a call's messages; calls `begun` before the first. Cancels the call where its text
  // cannot be written, and returns why.
  absl::Status Add(client::Stream<v1::GenerateResponse>& call,
                   const std::function<void()>& begun = nullptr);

  // The call has ended before its samples did, which is what `reason` says of them.
  void BreakOff(const std::string& reason);

  const std::map<int32_t, Sample>& samples() const { return samples_; }
  // All that came.
  nlohmann::json ToJson() const;
  // What is not of a sample: usage, times, the prompt's log-probabilities.
  nlohmann::json CallJson() const;

 private:
  void Add(const v1::SampleDelta& delta);
  void PrintEnded(int32_t index) const;
  double Milliseconds() const;  // since the call

  const Printed printed_;
  std::function<std::string(const std::string&)> shown_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::optional<double> first_token_ms_;
  std::map<int32_t, Sample> samples_;
  std::vector<nlohmann::json> prompt_logprobs_;
  std::optional<v1::Usage> usage_;
  nlohmann::json session_;  // null without one
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_OUTPUT_H_
