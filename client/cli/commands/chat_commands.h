// The commands of a chat: lines that begin with a slash.
#ifndef TVQ_CLIENT_CLI_COMMANDS_CHAT_COMMANDS_H_
#define TVQ_CLIENT_CLI_COMMANDS_CHAT_COMMANDS_H_

#include <string>

#include "absl/status/statusor.h"

namespace tvq::cli {

// A command, and what stands behind it.
struct ChatCommand {
  std::string name, argument;
};

// Of a line that begins with /. INVALID_ARGUMENT for a command that is none, or that is not given
// what it needs.
absl::StatusOr<ChatCommand> ParseChatCommand(const std::string& line);

// What /help shows.
extern const char kChatHelp[];

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_CHAT_COMMANDS_H_
