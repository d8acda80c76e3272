#include "client/cli/io/output.h"

#include <cstdio>
#include <utility>

#include "base/json.h"
#include "base/output_file.h"
#include "client/cli/io/session_text.h"

namespace tvq::cli {
namespace {

const char* FinishName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_CANCELLED:
      return "cancelled";
    case v1::FINISH_REASON_ERROR:
      return "error";
    default:
      return "";
  }
}

nlohmann::json SampleJson(int32_t index, const Sample& sample) {
  nlohmann::json json = {{"index", index},
                         {"text", sample.text},
                         {"token_ids", sample.token_ids},
                         {"finish_reason", sample.finish_reason},
                         {"stop_reason", sample.stop_reason}};
  if (!sample.logprobs.empty()) json["logprobs"] = sample.logprobs;
  return json;
}

nlohmann::json LogprobsJson(const v1::TokenLogprobs& token) {
  nlohmann::json json = {{"token_id", token.token().token_id()}, {"logprob", nullptr}};
  if (token.has_logprob()) {
    json["logprob"] = token.token().logprob();
    json["rank"] = token.token().rank();
  }
  for (const v1::TokenLogprob& top : token.top()) {
    json["top"].push_back({{"token_id", top.token_id()}, {"logprob", top.logprob()}});
  }
  return json;
}

}  // namespace

absl::Status Output::Add(const v1::GenerateResponse& response) {
  for (const auto& token : response.prompt_logprobs()) {
    prompt_logprobs_.push_back(LogprobsJson(token));
  }
  for (const v1::SampleDelta& delta : response.deltas()) {
    if (!first_token_ms_ && delta.token_ids_size() > 0) first_token_ms_ = Milliseconds();
    Add(delta);
  }
  if (response.has_usage()) usage_ = response.usage();
  if (response.has_session()) session_ = cli::ToJson(response.session());
  return printed_ == Printed::kNothing ? absl::OkStatus() : FlushStdout();
}

absl::Status Output::Add(client::Stream<v1::GenerateResponse>& call,
                         const std::function<void()>& begun) {
  v1::GenerateResponse response;
  absl::Status written;
  for (bool first = true; written.ok() && call.Next(&response); first = false) {
    if (first && begun) begun();
    written = Add(response);
  }
  if (!written.ok()) call.Cancel();
  const absl::Status status = call.Finish();
  return written.ok() ? status : written;
}

void Output::Add(const v1::SampleDelta& delta) {
  Sample& sample = samples_[delta.index()];
  sample.text += delta.text();
  sample.token_ids.insert(sample.token_ids.end(), delta.token_ids().begin(),
                          delta.token_ids().end());
  for (const auto& token : delta.logprobs()) sample.logprobs.push_back(LogprobsJson(token));
  if (delta.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
    sample.finish_reason = FinishName(delta.finish_reason());
  }
  if (delta.has_stop_string()) sample.stop_reason = delta.stop_string();
  if (delta.has_stop_token_id()) sample.stop_reason = delta.stop_token_id();
  if (printed_ == Printed::kText) {
    const std::string text = shown_ ? shown_(delta.text()) : delta.text();
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  if (!sample.finish_reason.empty()) PrintEnded(delta.index());
}

void Output::PrintEnded(int32_t index) const {
  if (printed_ != Printed::kSamples) return;
  std::printf("%s\n", JsonLine(SampleJson(index, samples_.at(index)).dump()).c_str());
}

void Output::BreakOff(const std::string& reason) {
  for (auto& [index, sample] : samples_) {
    if (!sample.finish_reason.empty()) continue;
    sample.finish_reason = reason;
    PrintEnded(index);
  }
}

double Output::Milliseconds() const {
  const auto passed = std::chrono::steady_clock::now() - start_;
  return std::chrono::duration<double, std::milli>(passed).count();
}

nlohmann::json Output::ToJson() const {
  nlohmann::json json;
  // A call that was cancelled early has an empty sample.
  const std::map<int32_t, Sample> none = {{0, Sample()}};
  for (const auto& [index, sample] : samples_.empty() ? none : samples_) {
    nlohmann::json one = SampleJson(index, sample);
    if (index == 0) json.update(one);
    json["samples"].push_back(std::move(one));
  }
  json.erase("index");
  json.update(CallJson());
  return json;
}

nlohmann::json Output::CallJson() const {
  nlohmann::json json = nlohmann::json::object();
  if (!prompt_logprobs_.empty()) json["prompt_logprobs"] = prompt_logprobs_;
  if (usage_) {
    json["usage"] = {{"prompt_tokens", usage_->prompt_tokens()},
                     {"cached_tokens", usage_->cached_tokens()},
                     {"completion_tokens", usage_->completion_tokens()}};
    if (usage_->reread_tokens() > 0) json["usage"]["reread_tokens"] = usage_->reread_tokens();
  } else {
    // The call ended before the server sent its usage. Only the generated tokens are known.
    size_t tokens = 0;
    for (const auto& [index, sample] : samples_) tokens += sample.token_ids.size();
    json["usage"] = {
        {"prompt_tokens", nullptr}, {"cached_tokens", nullptr}, {"completion_tokens", tokens}};
  }
  if (first_token_ms_) json["ms_to_first_token"] = *first_token_ms_;
  if (!session_.is_null()) json["session"] = session_;
  return json;
}

}  // namespace tvq::cli
