// What a durable tier has of one session.
#ifndef TVQ_SERVER_SESSIONS_RECORD_STORED_SESSION_H_
#define TVQ_SERVER_SESSIONS_RECORD_STORED_SESSION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/sessions/record/session_record.h"

namespace tvq {

struct StoredVersion {
  SessionRecord record;  // the newest when this version was written; its marks as Add says
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
  const std::map<int64_t, StoredVersion>& versions() const { return versions_; }
  std::map<int64_t, DamagedVersion>& damaged() { return damaged_; }
  const std::map<int64_t, DamagedVersion>& damaged() const { return damaged_; }

  // The version is stored, in place of what there was of it. So that many marks do not take the
  // square of their number, the newest of the session's own records keeps all of its marks, every
  // other one the mark at its version.
  void Add(int64_t version, SessionRecord record, int64_t bytes);
  void Erase(int64_t version) { versions_.erase(version); }

  // The record that the session continues from: the latest that was written with its own version's
  // state, for a mark's may be written before it. Null if there is none.
  const SessionRecord* Newest() const;

  // What the session is at: Newest, unless a later version is damaged. Then it is the record of
  // that version, or what an earlier record knows, with `damage` set and a mark for each version
  // that can be read. Versions that are not known to be a mark's are called "version N". Nothing if
  // there is no version.
  std::optional<SessionRecord> Current(const std::string& id) const;

  // Versions that neither Newest names nor a later record, whose own state is still to come. None
  // while a later version is damaged: each may be the best that is left.
  std::vector<int64_t> Superseded() const;
  // The same if this record and its version's own state were stored too, as the newest.
  std::vector<int64_t> SupersededBy(const SessionRecord& newest) const;

  bool empty() const { return versions_.empty() && damaged_.empty(); }
  int64_t bytes() const;  // of damaged versions too, which may have none

 private:
  // Of the version that the session should be at, if that is damaged. `newest` is its newest record
  // or null.
  const std::pair<const int64_t, DamagedVersion>* Lost(const SessionRecord* newest) const;

  std::map<int64_t, StoredVersion> versions_;
  std::map<int64_t, DamagedVersion> damaged_;
};

// Whether `version` is the record's own or that of one of its marks.
bool NamesVersion(const SessionRecord& record, int64_t version);

// Leaves of the record's marks those at `version`: all that a mark's snapshot needs.
void KeepMarksAt(SessionRecord& record, int64_t version);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_STORED_SESSION_H_
