// What was said on a session that stays, in a file of whoever said it.
#ifndef TVQ_CLIENT_CLI_COMMANDS_CHAT_FILE_H_
#define TVQ_CLIENT_CLI_COMMANDS_CHAT_FILE_H_

#include <string>

#include "absl/status/status.h"

namespace tvq::cli {

// Its name; "" where it has no place.
std::string ChatFile(const std::string& session_id);

// Deletes the file of a session that was deleted, if there is one.
absl::Status DeleteChatFile(const std::string& session_id);

// The failure of a call on the session. If it says that the server no longer has the session, and
// there is a file of it, the message also names the file.
absl::Status WithChatFile(const absl::Status& status, const std::string& session_id);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_CHAT_FILE_H_
