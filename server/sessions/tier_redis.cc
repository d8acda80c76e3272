#include "server/sessions/tier_redis.h"

#include <algorithm>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "models/runtime/json.h"
#include "server/sessions/record_json.h"
#include "server/sessions/redis_client.h"
#include "server/sessions/redis_pieces.h"
#include "server/sessions/redis_scripts.h"

namespace tvq {
namespace {

using redis_scripts::kAdmission;
using redis_scripts::kAdmit;
using redis_scripts::kClaim;
using redis_scripts::kCommit;
using redis_scripts::kCommon;
using redis_scripts::kDelete;
using redis_scripts::kLocate;

constexpr char kIndexKey[] = "tvq:sessions";
constexpr char kTotalKey[] = "tvq:bytes";
std::string ManifestKey(const std::string& id) { return absl::StrCat("tvq:session:", id); }
std::string PiecesPrefix(const std::string& id) { return absl::StrCat("tvq:piece:", id, ":"); }

// How long a deleted session is remembered: longer than a server that others have written off still
// runs.
constexpr char kDeletedSeconds[] = "86400";

// Manifests asked for at a time.
constexpr char kScanCount[] = "200";

// Why OpenRedisTier refuses a Redis. Policies that drop only keys with a time to live may drop
// uncommitted pieces, whose Put then fails as it should.
constexpr char kDropsAnyKey[] = "maxmemory_policy:allkeys-";

// A record has few values beside its marks.
constexpr JsonLimits kRecordLimits = {.depth = 4, .values = 1'000'000};

std::string_view Text(const redisReply& reply) {
  return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

// The words a script answered, at least one.
using Answer = std::vector<std::string>;

Answer Words(const redisReply& reply) {
  Answer words;
  for (size_t i = 0; i < reply.elements; ++i) words.emplace_back(Text(*reply.element[i]));
  if (words.empty()) words.emplace_back();
  return words;
}

int64_t Number(const Answer& answer, size_t word) {
  int64_t number = 0;
  if (word < answer.size() && absl::SimpleAtoi(answer[word], &number)) return number;
  return 0;
}

std::string NewToken() {
  static thread_local std::random_device device;
  return absl::StrFormat("%08x%08x", device(), device());
}

bool Names(const SessionRecord& record, int64_t version) {
  return record.version == version ||
         std::ranges::any_of(record.marks,
                             [&](const MarkRecord& mark) { return mark.version == version; });
}

class RedisTier : public DurableTier {
 public:
  RedisTier(const RedisAddress& address, const RedisTierOptions& options)
      : options_(options), client_(address, options.timeouts) {}

  // Checks that the Redis can be used.
  absl::Status Open();

  absl::Status ForEach(const std::function<void(SessionRecord)>& visit) override;
  absl::StatusOr<SessionRecord> Find(const std::string& id) override;
  absl::Status Put(const SessionRecord& record, int64_t version, int64_t bytes,
                   const std::function<absl::Status(const ByteSink&)>& write) override;
  absl::StatusOr<std::unique_ptr<ByteSource>> Get(const std::string& id, int64_t version) override;
  absl::Status Delete(const std::string& id) override;
  bool shared() const override { return true; }
  absl::Status Claim(const std::string& id) override;
  absl::StatusOr<bool> Owned(const std::string& id) override;
  Usage usage() const override;

 private:
  using Connection = RedisClient::Lent;

  absl::StatusOr<Answer> Run(Connection& connection, std::initializer_list<const char*> script,
                             const std::string& id, const std::vector<std::string>& arguments);
  // For a script's answer that is not "ok".
  absl::Status Refused(const std::string& id, const Answer& answer, int64_t record_version) const;
  absl::StatusOr<SessionRecord> Parse(const std::string& id, std::string_view record);
  std::vector<std::string> Admission(const SessionRecord& record, int64_t version,
                                     int64_t bytes) const;
  void Forget(const PieceLayout& layout);
  absl::StatusOr<std::string> Locate(const std::string& id, int64_t version);
  absl::Status Lost(const std::string& id, int64_t version, const std::string& place,
                    int64_t piece);
  void SetUsage(int64_t bytes, int64_t sessions);
  int64_t Epoch(const std::string& id) const;  // 0: not claimed
  void SetEpoch(const std::string& id, int64_t epoch);
  void SetCorrupt(const std::string& id);

  const RedisTierOptions options_;
  RedisClient client_;
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  absl::flat_hash_map<std::string, int64_t> epochs_;  // of our claims
  absl::flat_hash_set<std::string> corrupt_;
  Usage usage_;  // as Redis last said; not `corrupt`
};

absl::Status RedisTier::Open() {
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  // A user without the permission for INFO gets no check.
  const absl::StatusOr<RedisReply> info = (*connection)->Call({"INFO", "memory"});
  if (info.ok()) {
    const absl::string_view text((*info)->str, (*info)->len);
    if (absl::StrContains(text, kDropsAnyKey) && !absl::StrContains(text, "\r\nmaxmemory:0\r\n")) {
      return absl::FailedPreconditionError(
          absl::StrCat("Redis at ", client_.address().Display(),
                       " drops any key when its memory is full; set maxmemory-policy noeviction"));
    }
  }
  const absl::StatusOr<RedisReply> bytes = (*connection)->Call({"GET", kTotalKey});
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<RedisReply> sessions = (*connection)->Call({"SCARD", kIndexKey});
  if (!sessions.ok()) return sessions.status();
  SetUsage(Number({std::string(Text(**bytes))}, 0), (*sessions)->integer);
  return absl::OkStatus();
}

absl::StatusOr<Answer> RedisTier::Run(Connection& connection,
                                      std::initializer_list<const char*> script,
                                      const std::string& id,
                                      const std::vector<std::string>& arguments) {
  std::string source;
  for (const char* part : script) source += part;
  const std::string manifest = ManifestKey(id);
  const std::string prefix = PiecesPrefix(id);
  const std::string epoch = absl::StrCat(Epoch(id));
  std::vector<std::string_view> command = {"EVAL",    source, "3",    manifest, kIndexKey,
                                           kTotalKey, id,     prefix, epoch};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (absl::Status status = connection->Send(command); !status.ok()) return status;
  const absl::StatusOr<RedisReply> reply = connection->Receive();
  if (!reply.ok()) return reply.status();
  return Words(**reply);
}

absl::Status RedisTier::Refused(const std::string& id, const Answer& answer,
                                int64_t record_version) const {
  const std::string& why = answer[0];
  const std::string session = absl::StrCat("session ", id);
  if (why == "newer") {
    return absl::AbortedError(absl::StrCat(session, ": version ", answer[1],
                                           " is stored, this server has the older version ",
                                           record_version));
  }
  if (why == "claimed") {
    return absl::AbortedError(absl::StrCat(
        session, ": another server writes it since claim ", answer[1], "; this server has ",
        Epoch(id) == 0 ? "none" : absl::StrCat("claim ", Epoch(id))));
  }
  if (why == "deleted") {
    return absl::AbortedError(absl::StrCat(session, ": it was deleted, perhaps by another server"));
  }
  if (why == "full") {
    return absl::ResourceExhaustedError(absl::StrCat(
        session, ": the sessions in Redis at ", client_.address().Display(), " take ", answer[1],
        " of ", options_.budget_bytes, " bytes; delete sessions or raise the budget"));
  }
  if (why == "lost") {
    return absl::UnavailableError(absl::StrCat(session, ": Redis at ", client_.address().Display(),
                                               " lost piece ", answer[1], " before it was stored"));
  }
  return absl::InternalError(
      absl::StrCat(session, ": Redis at ", client_.address().Display(), " answered \"", why, "\""));
}

absl::StatusOr<SessionRecord> RedisTier::Parse(const std::string& id, std::string_view record) {
  const absl::StatusOr<nlohmann::json> json = ParseJsonObject(record, "record", kRecordLimits);
  absl::StatusOr<SessionRecord> parsed =
      json.ok() ? RecordFromJson(*json, "record") : json.status();
  if (parsed.ok() && parsed->id == id) return parsed;
  SetCorrupt(id);
  return absl::DataLossError(absl::StrCat("session ", id, ": its record in Redis at ",
                                          client_.address().Display(), ": ",
                                          parsed.ok() ? absl::StrCat("is of session ", parsed->id)
                                                      : std::string(parsed.status().message())));
}

absl::Status RedisTier::ForEach(const std::function<void(SessionRecord)>& visit) {
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  std::set<std::string> seen;  // a scan may name one twice
  std::string cursor = "0";
  do {
    absl::StatusOr<RedisReply> page =
        (*connection)->Call({"SSCAN", kIndexKey, cursor, "COUNT", kScanCount});
    if (!page.ok()) return page.status();
    cursor = Text(*(*page)->element[0]);
    Answer ids = Words(*(*page)->element[1]);
    std::erase_if(ids,
                  [&](const std::string& id) { return id.empty() || !seen.insert(id).second; });
    for (const std::string& id : ids) {
      const std::string manifest = ManifestKey(id);
      const std::string_view command[] = {"HGET", manifest, "record"};
      if (absl::Status status = (*connection)->Send(command); !status.ok()) return status;
    }
    for (const std::string& id : ids) {
      const absl::StatusOr<RedisReply> record = (*connection)->Receive();
      if (!record.ok()) return record.status();
      if ((*record)->type == REDIS_REPLY_NIL) continue;  // deleted meanwhile
      absl::StatusOr<SessionRecord> parsed = Parse(id, Text(**record));
      if (parsed.ok()) visit(*std::move(parsed));
    }
  } while (cursor != "0");
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> RedisTier::Find(const std::string& id) {
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<RedisReply> record =
      (*connection)->Call({"HGET", ManifestKey(id), "record"});
  if (!record.ok()) return record.status();
  if ((*record)->type == REDIS_REPLY_NIL) {
    return absl::NotFoundError(absl::StrCat("session ", id, " is not stored"));
  }
  return Parse(id, Text(**record));
}

// What kAdmission asks of a Put.
std::vector<std::string> RedisTier::Admission(const SessionRecord& record, int64_t version,
                                              int64_t bytes) const {
  std::vector<std::string> arguments = {absl::StrCat(version), absl::StrCat(record.version),
                                        absl::StrCat(bytes), absl::StrCat(options_.budget_bytes),
                                        absl::StrCat(record.version)};
  for (const MarkRecord& mark : record.marks) arguments.push_back(absl::StrCat(mark.version));
  return arguments;
}

absl::Status RedisTier::Put(const SessionRecord& record, int64_t version, int64_t bytes,
                            const std::function<absl::Status(const ByteSink&)>& write) {
  if (!Names(record, version)) {
    return absl::InternalError(absl::StrCat("session ", record.id, ": the record of version ",
                                            record.version, " does not name version ", version));
  }
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  std::vector<std::string> arguments = Admission(record, version, bytes);
  const absl::StatusOr<Answer> admitted =
      Run(*connection, {kCommon, kAdmission, kAdmit}, record.id, arguments);
  if (!admitted.ok()) return admitted.status();
  if ((*admitted)[0] != "ok") return Refused(record.id, *admitted, record.version);
  // Remembered before the commit, whose answer may get lost.
  SetEpoch(record.id, Number(*admitted, 1));

  const std::string token = NewToken();
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
  arguments.insert(arguments.begin() + 4,
                   {ToJson(record).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace),
                    place, kUncommittedSeconds});
  const absl::StatusOr<Answer> committed =
      Run(*connection, {kCommon, kAdmission, kCommit}, record.id, arguments);
  // It may be done all the same, so the pieces must stay.
  if (!committed.ok()) return committed.status();
  if ((*committed)[0] != "ok") {
    Forget(layout);
    return Refused(record.id, *committed, record.version);
  }
  SetUsage(Number(*committed, 1), Number(*committed, 2));
  return absl::OkStatus();
}

// Pieces that nothing refers to; Redis forgets what stays.
void RedisTier::Forget(const PieceLayout& layout) {
  absl::StatusOr<Connection> connection = client_.Borrow();
  for (int64_t piece = 0; connection.ok() && piece < layout.pieces(); ++piece) {
    if (!(*connection)->Call({"UNLINK", layout.Key(piece)}).ok()) return;
  }
}

absl::StatusOr<std::unique_ptr<ByteSource>> RedisTier::Get(const std::string& id, int64_t version) {
  const absl::StatusOr<std::string> place = Locate(id, version);
  if (!place.ok()) return place.status();
  const std::vector<std::string> words = absl::StrSplit(*place, ' ');
  const PieceLayout layout = {absl::StrCat(PiecesPrefix(id), version, ":", words[0], ":"),
                              Number(words, 1), Number(words, 2)};
  return std::make_unique<PieceSource>(&client_, layout,
                                       [this, id, version, place = *place](int64_t piece) {
                                         return Lost(id, version, place, piece);
                                       });
}

absl::StatusOr<std::string> RedisTier::Locate(const std::string& id, int64_t version) {
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<Answer> answer =
      Run(*connection, {kCommon, kLocate}, id, {absl::StrCat(version)});
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
    return absl::AbortedError(absl::StrCat("session ", id, ", version ", version,
                                           ": it was replaced or deleted while it was read"));
  }
  if (!now.ok()) return now.status();
  return absl::UnavailableError(absl::StrCat("session ", id, ", version ", version, ": piece ",
                                             piece, " was missing for a moment"));
}

absl::Status RedisTier::Delete(const std::string& id) {
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<Answer> answer = Run(*connection, {kCommon, kDelete}, id, {kDeletedSeconds});
  if (!answer.ok()) return answer.status();
  if ((*answer)[0] != "ok") return Refused(id, *answer, 0);
  SetUsage(Number(*answer, 1), Number(*answer, 2));
  const std::lock_guard lock(mutex_);
  epochs_.erase(id);
  corrupt_.erase(id);
  return absl::OkStatus();
}

absl::Status RedisTier::Claim(const std::string& id) {
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<Answer> answer = Run(*connection, {kCommon, kClaim}, id, {});
  if (!answer.ok()) return answer.status();
  if ((*answer)[0] != "ok") return Refused(id, *answer, 0);
  SetEpoch(id, Number(*answer, 1));
  return absl::OkStatus();
}

absl::StatusOr<bool> RedisTier::Owned(const std::string& id) {
  absl::StatusOr<Connection> connection = client_.Borrow();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<RedisReply> epoch = (*connection)->Call({"HGET", ManifestKey(id), "epoch"});
  if (!epoch.ok()) return epoch.status();
  return Epoch(id) >= Number({std::string(Text(**epoch))}, 0);
}

DurableTier::Usage RedisTier::usage() const {
  const std::lock_guard lock(mutex_);
  Usage usage = usage_;
  usage.budget = options_.budget_bytes;
  usage.corrupt = std::ssize(corrupt_);
  return usage;
}

void RedisTier::SetUsage(int64_t bytes, int64_t sessions) {
  const std::lock_guard lock(mutex_);
  usage_.bytes = bytes;
  usage_.sessions = sessions;
}

int64_t RedisTier::Epoch(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto epoch = epochs_.find(id);
  return epoch == epochs_.end() ? 0 : epoch->second;
}

void RedisTier::SetEpoch(const std::string& id, int64_t epoch) {
  const std::lock_guard lock(mutex_);
  epochs_[id] = epoch;
}

void RedisTier::SetCorrupt(const std::string& id) {
  const std::lock_guard lock(mutex_);
  corrupt_.insert(id);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurableTier>> OpenRedisTier(const std::string& url,
                                                           const RedisTierOptions& options) {
  const absl::StatusOr<RedisAddress> address = ParseRedisUrl(url);
  if (!address.ok()) return address.status();
  auto tier = std::make_unique<RedisTier>(*address, options);
  if (absl::Status status = tier->Open(); !status.ok()) return status;
  return tier;
}

}  // namespace tvq
