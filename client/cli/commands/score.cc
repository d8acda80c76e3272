// tvq score: how well a model predicts a text, in bits, or a file of examples.
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/time/clock.h"
#include "client/cli/command.h"
#include "client/cli/commands/score_examples.h"
#include "client/cli/io/input.h"
#include "client/cli/io/reading.h"
#include "client/cli/io/session_text.h"
#include "client/cli/io/terminal.h"
#include "client/cli/session_call_options.h"

namespace tvq::cli {
namespace {

struct ScoreOptions {
  std::string model;
  std::string file = "-";
  std::optional<bool> add_special_tokens;
  bool allow_unknown = false;
  ExampleOptions examples;
  SessionCallOptions session;
};

struct Bits {
  explicit Bits(const v1::ScoreSummary& summary)
      : total(0 - summary.total_logprob() / std::log(2.0)) {  // not -0
    if (summary.bytes() > 0) per_byte = total / static_cast<double>(summary.bytes());
    if (summary.scored_tokens() > 0) {
      per_token = total / static_cast<double>(summary.scored_tokens());
    }
  }
  double total = 0;
  std::optional<double> per_byte, per_token;  // none where no token is scored
};

// Which model scores: on a session, its own unless one is named.
absl::StatusOr<v1::Model> FindModel(const Globals& globals, const ScoreOptions& options) {
  std::string name = options.model;
  if (name.empty() && options.session.given()) {
    v1::GetSessionRequest request;
    request.set_session_id(options.session.id());
    const auto session = globals.client->sessions().Get(request, globals.Call());
    if (!session.ok()) return session.status();
    name = session->session().model();
  }
  return globals.client->GetModel(name, globals.Call());
}

void PrintScore(const Globals& globals, const std::string& model, const v1::ScoreResponse& last,
                double seconds) {
  const v1::ScoreSummary& summary = last.summary();
  const Bits bits(summary);
  if (globals.json) {
    nlohmann::json json = {{"model", model},
                           {"total_bits", bits.total},
                           {"tokens", summary.tokens()},
                           {"scored_tokens", summary.scored_tokens()},
                           {"unknown_tokens", summary.unknown_tokens()},
                           {"bytes", summary.bytes()},
                           {"bits_per_byte", nullptr},
                           {"bits_per_token", nullptr},
                           {"seconds", seconds}};
    if (bits.per_byte) json["bits_per_byte"] = *bits.per_byte;
    if (bits.per_token) json["bits_per_token"] = *bits.per_token;
    if (last.has_session()) json["session"] = ToJson(last.session());
    std::printf("%s\n", json.dump(2).c_str());
    return;
  }
  if (!bits.per_byte) {
    std::printf("%s, none of them scored: nothing stands before the first one\n",
                Counted(summary.tokens(), "token").c_str());
    return;
  }
  std::printf("%.4f bits per byte (%.1f bits, %s, %s%s, %.0f tokens/s)\n", *bits.per_byte,
              bits.total, Counted(summary.bytes(), "byte").c_str(),
              Counted(summary.tokens(), "token").c_str(),
              OfThemUnknown(summary.unknown_tokens()).c_str(),
              static_cast<double>(summary.tokens()) / seconds);
}

// What came of a text, for one that is interrupted.
void AddScored(v1::ScoreSummary* summary, const v1::Model& model,
               const v1::ScoreResponse& response) {
  for (const v1::TokenLogprobs& token : response.tokens()) {
    const v1::TokenLogprob& one = token.token();
    const bool is_unknown = model.has_unk_token_id() && one.token_id() == model.unk_token_id();
    summary->set_tokens(summary->tokens() + 1);
    summary->set_unknown_tokens(summary->unknown_tokens() + (is_unknown ? 1 : 0));
    if (!token.has_logprob()) continue;
    summary->set_scored_tokens(summary->scored_tokens() + 1);
    summary->set_total_logprob(summary->total_logprob() + one.logprob());
    summary->set_bytes(summary->bytes() + static_cast<int64_t>(one.token().size()));
  }
}

int RunScore(const Globals& globals, const ScoreOptions& options) {
  if (const absl::Status status = options.examples.Check(); !status.ok()) {
    return globals.FailUsage(status);
  }
  v1::ScoreRequest request;
  if (!options.examples.given()) {
    const absl::Status status = ReadInput(options.file, request.mutable_text());
    if (!status.ok()) return globals.FailUsage(status);
  }
  const auto model = FindModel(globals, options);
  if (!model.ok()) return globals.Fail(model.status());
  if (options.examples.given()) {
    return ScoreExamples(globals, options.examples, options.allow_unknown, *model);
  }
  request.set_model(model->name());
  request.set_allow_unknown(options.allow_unknown);
  if (options.add_special_tokens) request.set_add_special_tokens(*options.add_special_tokens);
  if (options.session.given()) {
    options.session.Fill(request.mutable_session());  // the text continues what the session holds
    // The server does not keep a long answer for a retry.
    request.set_summary_only(!request.session().idempotency_key().empty());
  } else {
    // Something to predict the first token from.
    request.set_prepend_eos(model->has_eos_token_id() && !model->add_bos_token() &&
                            options.add_special_tokens.value_or(true));
  }

  v1::TokenizeRequest text = TextOf(request);
  text.set_allow_unknown(request.allow_unknown());
  std::optional<Reading> reading(ShownSize(globals, SizeOf(request), text));
  const absl::Time start = absl::Now();
  const auto stream = globals.client->Score(request, globals.Call());
  const Interrupt::Guard guard(*globals.interrupt, [&] { stream->Cancel(); });
  v1::ScoreResponse response, last;
  while (stream->Next(&response)) {
    reading->Show(response.tokens_done());
    AddScored(last.mutable_summary(), *model, response);
    if (!response.has_summary()) continue;
    response.clear_tokens();
    last = response;
  }
  reading.reset();
  const absl::Status status = stream->Finish();
  const bool interrupted = absl::IsCancelled(status) && globals.interrupt->happened();
  if (!status.ok() && !interrupted) return globals.Fail(status);
  if (interrupted) EndTerminalLine();
  if (status.ok() || last.summary().scored_tokens() > 0) {
    PrintScore(globals, model->name(), last, absl::ToDoubleSeconds(absl::Now() - start));
  }
  return interrupted ? kInterrupted : kOk;
}

}  // namespace

void AddScore(flags::Command app, Globals& globals) {
  auto options = std::make_shared<ScoreOptions>();
  const flags::Command command = app.AddCommand(
      "score",
      "How well a model predicts: a text, the whole of it being one context, or many examples");
  AddModel(command, options->model);
  const flags::Option file = command.Add("--file", options->file, "Text to score, UTF-8; -: stdin")
                                 .TypeName("FILE")
                                 .NotEmpty("a file's name")
                                 .ShowDefault();
  command.InsteadOfArguments("a file is given with --file");
  options->session.AddTo(command);
  AddSpecialTokens(command, options->add_special_tokens);
  const flags::Option add = command.Find("--add-special-tokens");
  const flags::Option no_eos = command.AddFlag(
      "--no-eos", [options = options.get()] { options->add_special_tokens = false; },
      "Feed neither bos_token_id nor the end-of-sequence id first; the first token is then not "
      "scored");
  no_eos.Excludes(add);
  options->examples.AddTo(command, {file, command.Find("--session"), add,
                                    command.Find("--no-add-special-tokens"), no_eos});
  AddAllowUnknown(command, options->allow_unknown);
  command.OnParsed([&globals, options] {
    globals.run = [&globals, options] { return RunScore(globals, *options); };
  });
}

}  // namespace tvq::cli
