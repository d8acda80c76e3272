#include "base/flag_errors.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string_view>

#include "base/nearest.h"
#include "base/variables.h"

namespace tvq::flags {
namespace {

constexpr char kMore[] = "\nRun with --help for more information.\n";

std::vector<std::string> NamesOfCommands(const CLI::App* app) {
  std::vector<std::string> names;
  for (const CLI::App* command : CommandsOf(app)) names.push_back(command->get_name());
  return names;
}

// The command that a command line names last.
const CLI::App* Chosen(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().back();
  return app;
}

std::string UnknownCommand(const CLI::App* app, const std::string& word,
                           const Command::Hints& hints) {
  const std::vector<std::string> commands = NamesOfCommands(app);
  const auto hint = hints.find(app);
  if (commands.empty() && hint != hints.end()) {
    return "Unexpected argument " + word + "; " + hint->second;
  }
  const std::string meant = Nearest(word, commands);
  return (commands.empty() ? "Unexpected argument " : "Unknown command ") + word +
         (meant.empty() ? "" : "; did you mean " + meant + "?");
}

// Whether a word stands where a command must.
bool IsUnknownCommand(const CLI::App* app, const std::vector<std::string>& left) {
  return !left.empty() && !left.front().starts_with("-") && !CommandsOf(Chosen(app)).empty();
}

// What a command line has that no program knows; `app` is the program.
std::string Unknown(const CLI::App* app, const std::vector<std::string>& left,
                    const Command::Hints& hints) {
  const bool is_command = IsUnknownCommand(app, left);
  std::vector<std::string> options;
  while (true) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    const std::vector<CLI::App*> chosen = app->get_subcommands();
    if (chosen.empty()) break;
    app = chosen.back();
  }
  if (is_command) return UnknownCommand(app, left.front(), hints);  // its options are not known
  const auto option = std::find_if(left.begin(), left.end(),
                                   [](const std::string& word) { return word.starts_with("-"); });
  if (option == left.end()) return UnknownCommand(app, left.front(), hints);
  const std::string name = option->substr(0, option->find('='));
  const std::string meant = Nearest(name, options);
  return "Unknown option " + name + (meant.empty() ? "" : "; did you mean " + meant + "?");
}

// Of an option with too few values or too many CLI11 tells how it counts them.
std::string WrongCount(const std::string& reason) {
  constexpr std::string_view kName = ": ", kOnce = "At Most 1 required but received ";
  const size_t name = reason.find(kName);
  if (name == std::string::npos) return reason;
  const size_t rest = name + kName.size();
  if (reason.ends_with(" missing")) return reason.substr(0, rest) + "its value is missing";
  if (reason.compare(rest, kOnce.size(), kOnce) != 0) return reason;
  return reason.substr(0, rest) + "is given " + reason.substr(rest + kOnce.size()) +
         " times, must be given once";
}

// CLI11's complaint in the words of the programs. Of a value that is no number CLI11 says
// "Could not convert: OPTION = VALUE".
std::string WhatIsWrong(const CLI::App* app, const CLI::Error& error) {
  constexpr std::string_view kBegin = "Could not convert: ", kIs = " = ", kExcludes = " excludes ";
  const std::string reason = error.what();
  switch (static_cast<CLI::ExitCodes>(error.get_exit_code())) {
    case CLI::ExitCodes::ArgumentMismatch:
      return WrongCount(reason);
    case CLI::ExitCodes::ExcludesError:
      if (const size_t at = reason.find(kExcludes); at != std::string::npos) {
        return reason.substr(0, at) + " and " + reason.substr(at + kExcludes.size()) +
               " cannot be given together";
      }
      return reason;
    case CLI::ExitCodes::RequiredError:
      if (reason != "A subcommand is required") return reason;
      return "A command is required: " + CLI::detail::join(NamesOfCommands(Chosen(app)), ", ");
    default:
      break;
  }
  const size_t is = reason.find(kIs);
  if (!reason.starts_with(kBegin) || is == std::string::npos) return reason;
  return reason.substr(kBegin.size(), is - kBegin.size()) + ": " + reason.substr(is + kIs.size()) +
         " is no number";
}

// What is wrong with the value of an option. If the environment gave it, and not the command line,
// the text names the variable, and says so if it is a value that Kubernetes sets.
std::string Reason(const CLI::App* app, const CLI::Error& error,
                   const std::vector<std::string>& words) {
  const std::string reason = WhatIsWrong(app, error);
  for (const CLI::Option* option : app->get_options()) {
    const std::string& variable = option->get_envname();
    const std::string begin = option->get_name() + ": ";
    const char* const value = variable.empty() ? nullptr : std::getenv(variable.c_str());
    if (value == nullptr || *value == '\0' || !reason.starts_with(begin)) continue;
    const bool is_on_line = std::any_of(words.begin(), words.end(), [&](const std::string& word) {
      return word.starts_with("--") && option->check_lname(word.substr(2, word.find('=') - 2));
    });
    if (is_on_line) break;
    const std::string text = variable + ": " + reason.substr(begin.size());
    if (!IsServiceUrl(value)) return text;
    return text + ". Kubernetes sets it for a service of that name: give " + option->get_name() +
           ", or set enableServiceLinks: false in the pod's spec, or name the service otherwise";
  }
  return reason;
}

}  // namespace

std::vector<const CLI::App*> CommandsOf(const CLI::App* app) {
  return app->get_subcommands([](const CLI::App* command) { return !command->get_name().empty(); });
}

std::string UnknownCommandError(const CLI::App* app, const std::string& word,
                                const Command::Hints& hints) {
  return UnknownCommand(app, word, hints) + kMore;
}

// CLI11 lists what is not known, and asks for what is missing also where something else stands in
// its place.
std::string CommandLineError(const CLI::App* app, const CLI::Error& error,
                             const std::vector<std::string>& words, const Command::Hints& hints) {
  const std::vector<std::string> left = app->remaining(/*recurse=*/true);
  const int code = error.get_exit_code();
  const bool is_left = IsUnknownCommand(app, left) ||
                       code == static_cast<int>(CLI::ExitCodes::ExtrasError) ||
                       code == static_cast<int>(CLI::ExitCodes::RequiredError);
  return (!is_left || left.empty() ? Reason(app, error, words) : Unknown(app, left, hints)) + kMore;
}

}  // namespace tvq::flags
