// What a durable tier has of one session.
#ifndef TVQ_SERVER_SESSIONS_STORED_SESSION_H_
#define TVQ_SERVER_SESSIONS_STORED_SESSION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/sessions/session_record.h"

namespace tvq {

struct StoredVersion {
  SessionRecord record;  // the newest when this version was written
  int64_t bytes = 0;
};

// A version that is there and cannot be read.
struct DamagedVersion {
  absl::Status problem;  // DATA_LOSS, or why it cannot be read now
  int64_t bytes = 0;
  std::optional<SessionRecord> record;  // as StoredVersion's, if that much can be read
};

class StoredSession {
 public:
  std::map<int64_t, StoredVersion>& versions() { return versions_; }
  const std::map<int64_t, StoredVersion>& versions() const { return versions_; }
  std::map<int64_t, DamagedVersion>& damaged() { return damaged_; }
  const std::map<int64_t, DamagedVersion>& damaged() const { return damaged_; }

  // The record that the session continues from: the latest whose own state is stored, for a mark's
  // state may be written before it. Null if there is none.
  const SessionRecord* Newest() const;

  // What the session is at: Newest, unless a later version is damaged. Of that one its record, or
  // what an earlier one knows, with `damage` set, and with a mark for each version that can be
  // read; those that no mark names are called "version N". Nothing if there is no version.
  std::optional<SessionRecord> Current(const std::string& id) const;

  // Versions that neither Newest names nor a later record, whose own state is still to come. None
  // while a later version is damaged: each may be the best that is left.
  std::vector<int64_t> Superseded() const;

  bool empty() const { return versions_.empty() && damaged_.empty(); }
  int64_t bytes() const;  // of damaged versions too, which may have none

 private:
  // Of the version that the session should be at, if that is damaged.
  const std::pair<const int64_t, DamagedVersion>* Lost() const;

  std::map<int64_t, StoredVersion> versions_;
  std::map<int64_t, DamagedVersion> damaged_;
};

// Whether `version` is the record's own or that of one of its marks.
bool NamesVersion(const SessionRecord& record, int64_t version);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORED_SESSION_H_
