// What a durable tier has of one session.
#ifndef TVQ_SERVER_SESSIONS_STORED_SESSION_H_
#define TVQ_SERVER_SESSIONS_STORED_SESSION_H_

#include <cstdint>
#include <map>
#include <vector>

#include "server/sessions/session_record.h"

namespace tvq {

struct StoredVersion {
  SessionRecord record;  // the newest when this version was written
  int64_t bytes = 0;
};

class StoredSession {
 public:
  std::map<int64_t, StoredVersion>& versions() { return versions_; }
  const std::map<int64_t, StoredVersion>& versions() const { return versions_; }

  // The record that the session continues from: the latest whose own state is stored, for a mark's
  // state may be written before it. Null if there is none.
  const SessionRecord* Newest() const;

  // Versions that neither Newest names nor a later record, whose own state is still to come.
  std::vector<int64_t> Superseded() const;

  int64_t bytes() const;

 private:
  std::map<int64_t, StoredVersion> versions_;
};

// Whether `version` is the record's own or that of one of its marks.
bool NamesVersion(const SessionRecord& record, int64_t version);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORED_SESSION_H_
