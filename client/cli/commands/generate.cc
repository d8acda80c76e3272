// tvq generate: streams the continuation of a prompt to stdout.
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/output_file.h"
#include "client/cli/command.h"
#include "client/cli/io/input.h"
#include "client/cli/io/output.h"
#include "client/cli/io/reading.h"
#include "client/cli/io/terminal.h"
#include "client/cli/sampling_options.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

struct GenerateOptions {
  std::string model;
  std::optional<std::string> prompt;
  std::string prompt_file;
  std::vector<int32_t> prompt_ids;
  std::optional<bool> add_special_tokens;
  SamplingOptions sampling;
  SessionCallOptions session;
};

absl::Status SetPrompt(const GenerateOptions& options, v1::GenerateRequest* request) {
  if (!options.prompt_ids.empty()) {
    request->mutable_token_ids()->mutable_ids()->Add(options.prompt_ids.begin(),
                                                     options.prompt_ids.end());
    return absl::OkStatus();
  }
  if (options.prompt && *options.prompt != "-") {
    request->set_text(*options.prompt);
    return absl::OkStatus();
  }
  const bool is_named = options.prompt || !options.prompt_file.empty();
  const bool goes_on = options.session.given() && isatty(STDIN_FILENO) == 1;
  if (!is_named && goes_on) return absl::OkStatus();  // what the session holds is the prompt
  const std::string path = options.prompt_file.empty() ? "-" : options.prompt_file;
  return ReadInput(path, request->mutable_text(), "prompt");
}

Output::Printed PrintedAsItComes(const Globals& globals, bool single) {
  if (globals.json) return single ? Output::Printed::kNothing : Output::Printed::kSamples;
  return single ? Output::Printed::kText : Output::Printed::kNothing;
}

// What was not printed as it came.
void PrintRest(const Globals& globals, const Output& output, bool single, bool broke_off) {
  if (globals.json) {
    // Of several samples each has its line already.
    const nlohmann::json json = single ? output.ToJson() : output.CallJson();
    std::printf("%s\n", JsonLine(json.dump()).c_str());
  } else if (!single) {
    for (const auto& [index, sample] : output.samples()) {
      std::printf("--- %d\n%s\n", index, sample.text.c_str());
    }
  } else if (!broke_off && isatty(STDOUT_FILENO) == 1) {
    std::printf("\n");
  }
}

int RunGenerate(const Globals& globals, const GenerateOptions& options) {
  if (const auto status = options.sampling.CheckShown(globals.json); !status.ok()) {
    return globals.FailUsage(status);
  }
  v1::GenerateRequest request;
  request.set_model(options.model);
  options.sampling.Fill(request.mutable_sampling());
  if (options.session.given()) options.session.Fill(request.mutable_session());
  if (options.add_special_tokens) request.set_add_special_tokens(*options.add_special_tokens);
  if (auto status = SetPrompt(options, &request); !status.ok()) {
    return globals.FailUsage(status);
  }
  const bool single = request.sampling().n() <= 1;
  std::optional<Reading> reading(std::in_place, globals, request);
  Output output(PrintedAsItComes(globals, single));
  const auto stream = globals.client->Generate(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  const absl::Status status = output.Add(*stream, [&] { reading->Done(); });
  reading.reset();
  if (const absl::Status written = FlushStdout(); !written.ok()) return globals.FailUsage(written);
  const bool interrupted = absl::IsCancelled(status) && globals.interrupt->happened();
  const bool broke_off = !status.ok() && !output.samples().empty();
  const bool is_mid_line = interrupted || (broke_off && single && !globals.json);
  if (is_mid_line) EndTerminalLine();
  if (broke_off) output.BreakOff(interrupted ? "cancelled" : "error");
  if (broke_off || status.ok()) PrintRest(globals, output, single, broke_off);
  if (interrupted) return kInterrupted;
  return status.ok() ? kOk : globals.Fail(status);
}

}  // namespace

void AddGenerate(flags::Command app, Globals& globals) {
  auto options = std::make_shared<GenerateOptions>();
  const flags::Command command = app.AddCommand("generate", "Continue a prompt; streams the text");
  AddModel(command, options->model);
  const flags::Option prompt = command.Add("--prompt", options->prompt,
                                           "Text to continue; - or nothing: from stdin, every byte "
                                           "of it, but nothing in a terminal with "
                                           "--session. Empty: starts a new text");
  const flags::Option file =
      command.Add("--prompt-file", options->prompt_file, "File that holds the text");
  file.TypeName("FILE").NotEmpty("a file's name");
  const flags::Option ids =
      command.Add("--prompt-ids", options->prompt_ids, "Token ids, such as 5,9,2");
  ids.SplitAt(',');
  prompt.Excludes(file).Excludes(ids);
  file.Excludes(ids);
  command.InsteadOfArguments("a text is given with --prompt, a file with --prompt-file");
  AddSpecialTokens(command, options->add_special_tokens);
  options->sampling.AddTo(command);
  options->session.AddTo(command);
  options->session.AddCommitOnCancel(command);
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunGenerate(globals, *options); };
  });
}

}  // namespace tvq::cli
