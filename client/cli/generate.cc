// tvq generate: streams the continuation of a prompt to stdout.
#include <unistd.h>

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "client/cli/command.h"
#include "client/cli/sampling_options.h"

namespace tvq::cli {
namespace {

struct Options {
  std::string model;
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::vector<int32_t> prompt_ids;
  SamplingOptions sampling;
};

// What came for one sample.
struct Sample {
  std::string text;
  std::vector<int32_t> token_ids;
  nlohmann::json logprobs = nlohmann::json::array();
  std::string finish_reason;
  nlohmann::json stop_reason;  // null, a string or an id
};

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

nlohmann::json ToJson(const v1::TokenLogprobs& token) {
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

// Collects the stream, and prints the text of a single sample as it comes.
class Collector {
 public:
  explicit Collector(bool print) : print_(print) {}

  void Add(const v1::GenerateResponse& response) {
    for (const auto& token : response.prompt_logprobs())
      prompt_logprobs_.push_back(cli::ToJson(token));
    for (const v1::SampleDelta& delta : response.deltas()) Add(delta);
    if (response.has_usage()) usage_ = response.usage();
  }

  const std::map<int32_t, Sample>& samples() const { return samples_; }

  nlohmann::json ToJson() const {
    nlohmann::json json;
    for (const auto& [index, sample] : samples_) {
      nlohmann::json one = {{"index", index},
                            {"text", sample.text},
                            {"token_ids", sample.token_ids},
                            {"finish_reason", sample.finish_reason},
                            {"stop_reason", sample.stop_reason}};
      if (!sample.logprobs.empty()) one["logprobs"] = sample.logprobs;
      if (index == 0) json.update(one);
      json["samples"].push_back(std::move(one));
    }
    json.erase("index");
    if (!prompt_logprobs_.empty()) json["prompt_logprobs"] = prompt_logprobs_;
    json["usage"] = {{"prompt_tokens", usage_.prompt_tokens()},
                     {"cached_tokens", usage_.cached_tokens()},
                     {"completion_tokens", usage_.completion_tokens()}};
    return json;
  }

 private:
  void Add(const v1::SampleDelta& delta) {
    Sample& sample = samples_[delta.index()];
    sample.text += delta.text();
    sample.token_ids.insert(sample.token_ids.end(), delta.token_ids().begin(),
                            delta.token_ids().end());
    for (const auto& token : delta.logprobs()) sample.logprobs.push_back(cli::ToJson(token));
    if (delta.finish_reason() != v1::FINISH_REASON_UNSPECIFIED) {
      sample.finish_reason = FinishName(delta.finish_reason());
    }
    if (delta.has_stop_string()) sample.stop_reason = delta.stop_string();
    if (delta.has_stop_token_id()) sample.stop_reason = delta.stop_token_id();
    if (!print_) return;
    std::fwrite(delta.text().data(), 1, delta.text().size(), stdout);
    std::fflush(stdout);
  }

  const bool print_;
  std::map<int32_t, Sample> samples_;
  std::vector<nlohmann::json> prompt_logprobs_;
  v1::Usage usage_;
};

absl::Status SetPrompt(const Options& options, v1::GenerateRequest* request) {
  if (!options.prompt_ids.empty()) {
    request->mutable_token_ids()->mutable_ids()->Add(options.prompt_ids.begin(),
                                                     options.prompt_ids.end());
    return absl::OkStatus();
  }
  if (options.prompt && *options.prompt != "-") {
    request->set_text(*options.prompt);
    return absl::OkStatus();
  }
  const bool from_stdin = options.prompt || isatty(STDIN_FILENO) == 0;
  if (options.prompt_file.empty() && !from_stdin) return absl::OkStatus();
  const std::string path = options.prompt_file.empty() ? "-" : options.prompt_file;
  return ReadInput(path, request->mutable_text());
}

int Run(const Globals& globals, const Options& options) {
  v1::GenerateRequest request;
  request.set_model(options.model);
  options.sampling.Fill(request.mutable_sampling());
  if (auto status = SetPrompt(options, &request); !status.ok()) {
    std::fprintf(stderr, "tvq: %s\n", status.ToString().c_str());
    return kUsage;
  }
  const bool single = request.sampling().n() <= 1;
  Collector collector(single && !globals.json);
  const auto client = globals.Connect();
  const auto stream = client->Generate(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  v1::GenerateResponse response;
  while (stream->Next(&response)) collector.Add(response);
  if (const absl::Status status = stream->Finish(); !status.ok()) return globals.Fail(status);

  if (globals.json) {
    std::printf("%s\n", collector.ToJson().dump(2).c_str());
  } else if (!single) {
    for (const auto& [index, sample] : collector.samples()) {
      std::printf("--- %d\n%s\n", index, sample.text.c_str());
    }
  } else if (isatty(STDOUT_FILENO) == 1) {
    std::printf("\n");
  }
  return kOk;
}

}  // namespace

void AddGenerate(CLI::App& app, Globals& globals) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("generate", "Continue a prompt; streams the text");
  command->add_option("--model", options->model,
                      "Name of the model; may be left out if there is one");
  auto* prompt = command->add_option(
      "--prompt", options->prompt,
      "Text to continue; - or nothing: from stdin, every byte of it. Empty: starts a new text");
  auto* file = command->add_option("--prompt-file", options->prompt_file, "Text to continue");
  auto* ids = command->add_option("--prompt-ids", options->prompt_ids, "Token ids, such as 5,9,2");
  ids->delimiter(',');
  prompt->excludes(file, ids);
  file->excludes(ids);
  options->sampling.AddTo(*command);
  command->callback([&globals, options] {
    globals.run = [&globals, options] { return Run(globals, *options); };
  });
}

}  // namespace tvq::cli
