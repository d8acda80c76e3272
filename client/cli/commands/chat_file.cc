#include "client/cli/commands/chat_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/read_file.h"
#include "client/cli/line/state_files.h"

namespace tvq::cli {

std::string ChatFile(const std::string& session_id) {
  if (!CheckPlainFileName("session_id", session_id).ok()) return "";
  return StateFile(absl::StrCat("chats/", session_id, ".json"));
}

absl::Status DeleteChatFile(const std::string& session_id) {
  const std::string file = ChatFile(session_id);
  if (file.empty() || unlink(file.c_str()) == 0 || errno == ENOENT || errno == ENOTDIR) {
    return absl::OkStatus();
  }
  return absl::UnknownError(absl::StrCat("session ", session_id,
                                         " is deleted, but what was said on it is still in ", file,
                                         ": ", std::strerror(errno)));
}

absl::Status WithChatFile(const absl::Status& status, const std::string& session_id) {
  if (!absl::IsNotFound(status)) return status;
  const std::string file = ChatFile(session_id);
  if (file.empty() || access(file.c_str(), F_OK) != 0) return status;
  return absl::NotFoundError(
      absl::StrCat(std::string(status.message()), "; what was said on it is still in ", file));
}

}  // namespace tvq::cli
