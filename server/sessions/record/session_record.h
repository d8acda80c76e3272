// What is known of a session beside its state.
#ifndef TVQ_SERVER_SESSIONS_RECORD_SESSION_RECORD_H_
#define TVQ_SERVER_SESSIONS_RECORD_SESSION_RECORD_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/engine/request/continuation.h"

namespace tvq {

// A state of the session's past that is kept.
struct MarkRecord {
  std::string name;
  int64_t version = 0;  // of the session, whose state it is
  int64_t position = 0;
  std::optional<AnswerEnd> answer_end;  // as the session's was
};

struct SessionRecord {
  std::string id;     // 32 hexadecimal digits
  std::string owner;  // name of the key that made it; empty on a server without keys
  std::string model;  // name under which the model is served
  std::string label;
  std::string parent_id;  // empty: not a fork
  int64_t parent_version = 0;
  int64_t version = 1;            // 1 when created; each commit adds 1
  int64_t persisted_version = 0;  // newest on the durable tier; 0: none
  int64_t position = 0;           // tokens it holds, those pending included
  absl::Time created;
  absl::Time last_used;
  absl::Duration ttl = absl::InfiniteDuration();  // of wall time without use
  bool has_transcript = false;
  bool add_special_tokens = true;       // what calls have that do not say (GenerateRequest)
  std::optional<AnswerEnd> answer_end;  // unset: nothing was generated, or it is not known
  std::vector<MarkRecord> marks;
  std::string creation_key;    // idempotency key of the call that made it
  std::string creation_asked;  // what that call asked, as AskedBy says; empty: not known
  // No part of a snapshot. Why the version that the durable tier has last cannot be read; OK if it
  // can. What it has besides is among the marks then.
  absl::Status damage;
  bool owner_lost = false;  // and all of the record but the id
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_SESSION_RECORD_H_
