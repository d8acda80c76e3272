// States on their way into a Redis and out of it.
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/refusal.h"
#include "server/sessions/durable/redis/redis_pieces.h"
#include "server/sessions/durable/redis/redis_scripts.h"
#include "server/sessions/durable/redis/tier_redis_impl.h"
#include "server/sessions/record/record_json.h"
#include "server/sessions/record/stored_session.h"

namespace tvq {
namespace {

using redis_scripts::kAdmission;
using redis_scripts::kAdmit;
using redis_scripts::kCommit;
using redis_scripts::kCommon;
using redis_scripts::kLocate;
using redis_scripts::kSettle;

}  // namespace

std::string NewRedisToken() {
  static thread_local std::random_device device;
  return absl::StrFormat("%08x%08x", device(), device());
}

// What kAdmission asks of a Put.
RedisTier::Words RedisTier::Admission(const SessionRecord& record, int64_t version,
                                      int64_t bytes) const {
  int64_t undone = 0;
  {
    const MutexLock lock(&mutex_);
    const auto found = undone_.find(record.id);
    if (found != undone_.end()) undone = found->second;
  }
  Words arguments = {absl::StrCat(version), absl::StrCat(record.version),
                     absl::StrCat(bytes),   absl::StrCat(budget_),
                     absl::StrCat(undone),  absl::StrCat(record.version)};
  for (const MarkRecord& mark : record.marks) arguments.push_back(absl::StrCat(mark.version));
  return arguments;
}

absl::Status RedisTier::Put(const SessionRecord& record, int64_t version, int64_t bytes,
                            const std::function<absl::Status(const ByteSink&)>& write) {
  if (!NamesVersion(record, version)) {
    return absl::InternalError(absl::StrCat("session ", record.id, ": the record of version ",
                                            record.version, " does not name version ", version));
  }
  if (absl::Status status = Settle(record.id); !status.ok()) return status;
  Words arguments = Admission(record, version, bytes);
  const absl::StatusOr<Words> admitted = Run({kCommon, kAdmission, kAdmit}, record.id, arguments);
  if (!admitted.ok()) return admitted.status();
  if ((*admitted)[0] != "ok") return NotDone(record.id, *admitted, record.version);
  // Remembered before the commit, whose answer may get lost.
  SetEpoch(record.id, RedisNumber(*admitted, 1));

  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  const std::string token = NewRedisToken();
  const PieceLayout layout = {absl::StrCat(PiecesPrefix(record.id), version, ":", token, ":"),
                              bytes, options_.piece_bytes};
  PieceWriter writer(&*connection, layout);
  absl::Status status = write([&](std::span<const std::byte> part) { return writer.Add(part); });
  if (status.ok()) status = writer.Finish();
  if (!status.ok()) {
    Forget(layout);
    return status;
  }
  const std::string place = absl::StrCat(token, " ", bytes, " ", options_.piece_bytes);
  arguments.insert(arguments.begin() + 5,
                   {ToJson(record).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                    absl::StrCat(absl::ToUnixMicros(record.last_used)), place, kUncommittedSeconds,
                    CreatedKey(record), absl::StrCat(RedisNumber(*admitted, 2))});
  const absl::StatusOr<Words> committed =
      Run(*connection, {kCommon, kAdmission, kCommit}, record.id, arguments);
  if (!committed.ok()) {
    if ((*connection)->reusable()) {  // Redis answered, and did nothing
      Forget(layout);
      return committed.status();
    }
    return SettleNow(record.id,
                     {.version = version, .place = place, .with_record = version == record.version},
                     committed.status());
  }
  if ((*committed)[0] != "ok") {
    Forget(layout);
    return NotDone(record.id, *committed, record.version);
  }
  SetUsage(*committed);
  const MutexLock lock(&mutex_);
  if (version == record.version) undone_.erase(record.id);
  return absl::OkStatus();
}

absl::Status RedisTier::SettleNow(const std::string& id, const Attempt& attempt,
                                  const absl::Status& why) {
  {
    const MutexLock lock(&mutex_);
    attempts_[id] = attempt;
  }
  const absl::StatusOr<bool> done = Settle(id, attempt);
  if (!done.ok()) {
    return absl::UnavailableError(absl::StrCat(why.message(), "; whether version ", attempt.version,
                                               " of session ", id, " was stored is not known yet"));
  }
  if (!*done) return why;
  const MutexLock lock(&mutex_);
  if (attempt.with_record) undone_.erase(id);  // the caller hears that it is stored
  return absl::OkStatus();
}

absl::Status RedisTier::Settle(const std::string& id) {
  Attempt attempt;
  {
    const MutexLock lock(&mutex_);
    const auto found = attempts_.find(id);
    if (found == attempts_.end()) return absl::OkStatus();
    attempt = found->second;
  }
  return Settle(id, attempt).status();
}

absl::StatusOr<bool> RedisTier::Settle(const std::string& id, const Attempt& attempt) {
  const absl::StatusOr<Words> answer = Run(
      {kCommon, kSettle}, id, {absl::StrCat(attempt.version), attempt.place, kUncommittedSeconds});
  if (!answer.ok()) return answer.status();
  if ((*answer)[0] == "ok") SetEpoch(id, RedisNumber(*answer, 1));
  const bool done = (*answer)[0] == "stored";
  const MutexLock lock(&mutex_);
  const auto found = attempts_.find(id);
  if (found == attempts_.end() || found->second.place != attempt.place) return done;
  attempts_.erase(found);
  if (done && attempt.with_record) undone_[id] = attempt.version;
  return done;
}

// Pieces that nothing refers to; Redis forgets what stays.
void RedisTier::Forget(const PieceLayout& layout) {
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  for (int64_t piece = 0; connection.ok() && piece < layout.pieces(); ++piece) {
    if (!(*connection)->Call({"UNLINK", layout.Key(piece)}).ok()) return;
  }
}

absl::StatusOr<std::unique_ptr<ByteSource>> RedisTier::Get(const std::string& id, int64_t version) {
  const absl::StatusOr<std::string> place = Locate(id, version);
  if (!place.ok()) return place.status();
  const std::vector<std::string> words = absl::StrSplit(*place, ' ');
  const PieceLayout layout = {absl::StrCat(PiecesPrefix(id), version, ":", words[0], ":"),
                              RedisNumber(words, 1), RedisNumber(words, 2)};
  return std::make_unique<PieceSource>(&client_, layout,
                                       [this, id, version, place = *place](int64_t piece) {
                                         return Lost(id, version, place, piece);
                                       });
}

absl::StatusOr<std::string> RedisTier::Locate(const std::string& id, int64_t version) {
  const absl::StatusOr<Words> answer = Run({kCommon, kLocate}, id, {absl::StrCat(version)});
  if (!answer.ok()) return answer.status();
  if ((*answer)[0] == "ok" && answer->size() == 2) return (*answer)[1];
  const std::string what = absl::StrCat("session ", id, ", version ", version);
  if ((*answer)[0] == "absent") return absl::NotFoundError(absl::StrCat(what, " is not stored"));
  SetCorrupt(id);
  if ((*answer)[0] == "damaged" && answer->size() == 4) {
    return absl::DataLossError(absl::StrCat(what, ": piece ", (*answer)[1], " in Redis at ",
                                            client_.address().Display(), " has ", (*answer)[2],
                                            " of ", (*answer)[3], " bytes"));
  }
  return absl::DataLossError(absl::StrCat(what, ": the manifest in Redis at ",
                                          client_.address().Display(), " is damaged"));
}

// Why a piece that was there is not any more.
absl::Status RedisTier::Lost(const std::string& id, int64_t version, const std::string& place,
                             int64_t piece) {
  const absl::StatusOr<std::string> now = Locate(id, version);
  if (absl::IsNotFound(now.status()) || (now.ok() && *now != place)) {
    return Refused(Reason::kSessionMoved,
                   absl::StrCat("session ", id, ", version ", version,
                                ": it was replaced or deleted while it was read"));
  }
  if (!now.ok()) return now.status();
  return absl::UnavailableError(absl::StrCat("session ", id, ", version ", version, ": piece ",
                                             piece, " was missing for a moment"));
}

}  // namespace tvq
