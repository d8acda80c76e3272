// tvq: the command line of a tvq server.
#include <cstdio>
#include <iostream>

#include "client/cli/command.h"

namespace tvq::cli {

client::CallOptions Globals::Call() const {
  client::CallOptions options;
  if (timeout > 0) options.timeout = absl::Seconds(timeout);
  return options;
}

int Globals::Fail(const absl::Status& status) const {
  if (absl::IsCancelled(status) && interrupt->happened()) return kInterrupted;
  std::fflush(stdout);
  std::cerr << "tvq: " << absl::StatusCodeToString(status.code()) << ": " << status.message()
            << "\n";
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
  std::cerr << "tvq: " << status.ToString() << "\n";
  return kUsage;
}

CLI::Option* AddModel(CLI::App& command, std::string& model) {
  return command.add_option("--model", model, "Name of the model; may be left out if there is one");
}

namespace {

int Main(int argc, char** argv) {
  Interrupt interrupt;  // before any thread starts
  Globals globals;
  globals.interrupt = &interrupt;
  CLI::App app("Talks to a tvq server.", "tvq");
  app.set_version_flag("--version", TVQ_VERSION);
  globals.connect.AddTo(app);
  app.add_flag("--json", globals.json, "Print one JSON object instead of text");
  app.add_option("--timeout", globals.timeout, "Seconds the call may take; 0: no limit")
      ->check(CLI::NonNegativeNumber);
  app.require_subcommand(1);
  app.fallthrough();  // the options above may follow the subcommand
  AddGenerate(app, globals);
  AddScore(app, globals);
  AddTokenize(app, globals);
  AddDetokenize(app, globals);
  AddInfo(app, globals);
  AddSession(app, globals);
  AddAdmin(app, globals);
  app.footer(
      "Exit codes: 0 done, 1 the server refused or failed, 2 wrong usage, 3 the server cannot be\n"
      "reached or is stopping, 4 --timeout passed, 130 interrupted. `tvq COMMAND --help` tells "
      "more.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  }
  const auto options = globals.connect.Options();
  if (!options.ok()) return globals.FailUsage(options.status());
  auto client = client::Client::Connect(*options);
  if (!client.ok()) return globals.FailUsage(client.status());
  globals.client = std::move(*client);
  return globals.run();
}

}  // namespace
}  // namespace tvq::cli

int main(int argc, char** argv) { return tvq::cli::Main(argc, argv); }
