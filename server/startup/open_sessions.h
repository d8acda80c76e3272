#ifndef TVQ_SERVER_STARTUP_OPEN_SESSIONS_H_
#define TVQ_SERVER_STARTUP_OPEN_SESSIONS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/engine.h"
#include "server/sessions/session_store.h"

namespace tvq {

// Where sessions are kept. With neither a directory nor a Redis they end with the process.
struct SessionFlags {
  std::string dir;
  int64_t disk_bytes = 0;                        // of the directory or the Redis; 0: not said
  std::string redis;                             // URL; empty: none
  double ttl = 0;                                // seconds of the default time to live; 0: for ever
  std::vector<std::string> shared_prompt_files;  // each is one prompt, as it is
  SessionOptions options = {.stored_prefix_bytes = int64_t{1} << 30};
};

// Finds the sessions that are stored. Errors name the directory, the Redis or the file of prompts.
// `engine` must outlive the store.
absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessions(Engine* engine,
                                                           const SessionFlags& flags);

// Warns of sessions whose owner no caller can be: made with a key that is not in the file of keys,
// or without keys where there is a file. `api_key_file`: empty without keys.
void WarnOfUnreachable(const SessionStore& sessions, const std::string& api_key_file);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_OPEN_SESSIONS_H_
