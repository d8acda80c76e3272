// tvq: the command line of a tvq server.
#include <google/protobuf/stubs/logging.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/flags.h"
#include "base/output_file.h"
#include "base/variables.h"
#include "client/cli/command.h"
#include "client/cli/health.h"
#include "client/cli/io/seconds.h"
#include "client/cli/io/terminal.h"
#include "client/cpp/grpc_log.h"
#include "client/cpp/key_text.h"
#include "client/cpp/unreachable.h"

namespace tvq::cli {

client::CallOptions Globals::Call() const {
  client::CallOptions options;
  if (timeout > 0) options.timeout = absl::Seconds(timeout);
  return options;
}

std::string Globals::Told(const absl::Status& status) const {
  std::string message(status.message());
  if (absl::IsUnauthenticated(status) && sends_key && !connect.has_key()) {
    return client::kGiveKey;
  }
  if (absl::EndsWith(message, client::kIsItRunning)) message += " (--server, TVQ_SERVER)";
  if (absl::EndsWith(message, client::kGiveAuthority)) {
    message += " (--ssl-ca-certs, TVQ_SSL_CA_CERTS)";
  }
  std::vector<std::string> lines = absl::StrSplit(message, '\n');  // perhaps of a template
  for (std::string& line : lines) line = Shown(line);
  return absl::StrJoin(lines, "\n");
}

int Globals::Fail(const absl::Status& status) const {
  if (absl::IsCancelled(status) && interrupt->happened()) {
    EndTerminalLine();
    return kInterrupted;
  }
  std::fflush(stdout);
  std::cerr << "tvq: " << absl::StatusCodeToString(status.code()) << ": " << Told(status) << "\n";
  if (const auto retry = client::RetryAfter(status)) {
    std::cerr << "tvq: the server asks to try again in " << absl::FormatDuration(*retry) << "\n";
  }
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
      return kUnavailable;
    case absl::StatusCode::kDeadlineExceeded:
      return kDeadline;
    default:
      return kServerError;
  }
}

int Globals::FailUsage(const absl::Status& status) const {
  std::fflush(stdout);
  std::cerr << "tvq: " << Told(status) << "\n";
  return kUsage;
}

flags::Option AddModel(flags::Command command, std::string& model) {
  return command.Add("--model", model, "The model; left out: the server's first").TypeName("NAME");
}

flags::Option AddAllowUnknown(flags::Command command, bool& allow) {
  return command.AddFlag("--allow-unknown", allow,
                         "Take characters outside the model's vocabulary for its unknown token; "
                         "without this they are an error");
}

void AddSpecialTokens(flags::Command command, std::optional<bool>& add) {
  const flags::Option with = command.AddFlag(
      "--add-special-tokens", [&add] { add = true; },
      "Begin an empty context with the model's bos_token_id, if it adds one; the default, unless a "
      "session was created otherwise");
  command.AddFlag(
             "--no-add-special-tokens", [&add] { add = false; }, "Do not begin it so")
      .Excludes(with);
}

std::string OfThemUnknown(int64_t count) {
  return count == 0 ? "" : absl::StrCat(", ", count, " of them unknown");
}

std::string Counted(int64_t count, std::string_view noun) {
  return absl::StrCat(count, " ", std::string(noun), count == 1 ? "" : "s");
}

namespace {

constexpr char kCommonGroup[] = "Common";

int Main(int argc, char** argv) {
  client::SilenceGrpc();
  Interrupt interrupt;  // before any thread starts
  // It prints every text that is not UTF-8, which the server refuses and tells where it is not.
  google::protobuf::SetLogHandler(nullptr);
  Globals globals;
  globals.interrupt = &interrupt;
  flags::Program app("Talks to a tvq server.", "tvq");
  app.Version(TVQ_VERSION);
  app.AddFlag("--json", globals.json,
              "Print JSON instead of text: an object, or one a line of each result as it comes")
      .Group(kCommonGroup);
  AsSeconds(app.Add("--timeout", globals.timeout, "How long the call may take; 0: no limit"))
      .Group(kCommonGroup);
  globals.connect.AddTo(app);
  app.RequireCommand();
  app.OptionsMayFollow();
  AddGenerate(app, globals);
  AddScore(app, globals);
  AddDraw(app, globals);
  AddEncode(app, globals);
  AddTokenize(app, globals);
  AddDetokenize(app, globals);
  AddInfo(app, globals);
  AddHealth(app, globals);
  AddSession(app, globals);
  AddSessionChat(app, globals);  // for short
  AddAdmin(app, globals);
  app.AddHelp();
  app.Footer(
      "Exit codes: 0 done, 1 the server refused or failed, 2 wrong usage, 3 the server cannot be\n"
      "reached or is stopping, 4 --timeout passed or the output was taken too slowly,\n"
      "130 interrupted. `tvq COMMAND --help` and `tvq help COMMAND` tell more.");
  if (const std::optional<int> ends = app.Parse(argc, argv)) return *ends;
  WarnOfUnknownVariables("tvq");
  const absl::StatusOr<client::ConnectOptions> options =
      globals.sends_key ? globals.connect.Options() : globals.connect.OptionsWithoutKey();
  if (!options.ok()) return globals.FailUsage(options.status());
  auto client = client::Client::Connect(*options);
  if (!client.ok()) return globals.FailUsage(client.status());
  globals.client = std::move(*client);
  const int code = globals.run();
  const absl::Status written = FlushStdout();
  return code == kOk && !written.ok() ? globals.FailUsage(written) : code;
}

}  // namespace
}  // namespace tvq::cli

int main(int argc, char** argv) { return tvq::cli::Main(argc, argv); }
