#include "client/cli/commands/chat_commands.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/nearest.h"
#include "client/cli/io/terminal.h"

namespace tvq::cli {
namespace {

enum class Argument : uint8_t { kNone, kMayBe, kMark };

struct Known {
  std::string_view name;
  Argument argument;
};
constexpr std::array<Known, 9> kCommands = {{{"/system", Argument::kMayBe},
                                             {"/undo", Argument::kNone},
                                             {"/save", Argument::kMayBe},
                                             {"/fork", Argument::kMayBe},
                                             {"/mark", Argument::kMark},
                                             {"/rewind", Argument::kMark},
                                             {"/show", Argument::kNone},
                                             {"/help", Argument::kNone},
                                             {"/quit", Argument::kNone}}};

}  // namespace

const char kChatHelp[] =
    "A line is answered; an empty one lets the model go on. A line that ends with \\ goes on in "
    "the\n"
    "next one, and so does all between \"\"\" and \"\"\". // begins a line that starts with /.\n"
    "  /system [TEXT]  tell the model how to answer; without a text: no more\n"
    "  /undo           take the last message and its answer back\n"
    "  /save [LABEL]   keep the session when the chat ends and, if the server stores sessions, "
    "when\n"
    "                  the server does; with a label: keep a copy that has it, and go on in that\n"
    "  /fork [LABEL]   go on in a copy; the original stays as it is\n"
    "  /mark NAME      keep this place\n"
    "  /rewind NAME    back to it\n"
    "  /show           the session: its id, position, marks\n"
    "  /quit           leave, as Ctrl-D does; a new session is deleted then, unless it was saved "
    "or\n"
    "                  forked\n"
    "Ctrl-C ends an answer, which is kept as far as it came.\n";

absl::StatusOr<ChatCommand> ParseChatCommand(const std::string& line) {
  const size_t end = std::min(line.find_first_of(" \t\n"), line.size());
  ChatCommand command{line.substr(0, end), line.substr(end)};
  absl::StripAsciiWhitespace(&command.argument);
  const auto* const known = std::find_if(kCommands.begin(), kCommands.end(), [&](const Known& one) {
    return one.name == command.name;
  });
  if (known == kCommands.end()) {
    std::vector<std::string> names;
    names.reserve(kCommands.size());
    for (const Known& one : kCommands) names.emplace_back(one.name);
    const std::string meant = Nearest(command.name, names);
    return absl::InvalidArgumentError(
        absl::StrCat("no command ", Shown(command.name),
                     meant.empty() ? "" : absl::StrCat("; did you mean ", meant, "?"),
                     meant.empty() ? "; /help names them" : " /help names them"));
  }
  if (known->argument == Argument::kNone && !command.argument.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(command.name, ": takes nothing behind it"));
  }
  if (known->argument == Argument::kMark && command.argument.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(command.name, ": needs the name of a mark"));
  }
  return command;
}

}  // namespace tvq::cli
