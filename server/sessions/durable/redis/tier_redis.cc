#include "server/sessions/durable/redis/tier_redis.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/json.h"
#include "base/refusal.h"
#include "server/sessions/durable/redis/redis_scripts.h"
#include "server/sessions/durable/redis/tier_redis_impl.h"
#include "server/sessions/record/record_json.h"

namespace tvq {
namespace {

using redis_scripts::kClaim;
using redis_scripts::kCommon;
using redis_scripts::kDelete;
using redis_scripts::kDeleteUnused;
using redis_scripts::kErase;
using redis_scripts::kTouch;

constexpr char kIndexKey[] = "sessions";
constexpr char kTotalKey[] = "bytes";
constexpr char kInstanceKey[] = "instance";

// How long a deleted session is remembered: longer than a server that others have written off still
// runs.
constexpr char kDeletedSeconds[] = "86400";

// Manifests asked for at a time.
constexpr char kScanCount[] = "200";

// Why OpenRedisTier refuses a Redis. Policies that drop only keys with a time to live may drop
// uncommitted pieces, whose Put then fails as it should.
constexpr char kDropsAnyKey[] = "maxmemory_policy:allkeys-";

// What Redis's answer to INFO says of memory that it may yet take; nothing if it does not say.
// Without a maxmemory that is what its machine has.
std::optional<int64_t> FreeMemory(absl::string_view info) {
  std::map<absl::string_view, absl::string_view> fields;
  for (const absl::string_view line : absl::StrSplit(info, "\r\n")) {
    fields.insert(absl::StrSplit(line, absl::MaxSplits(':', 1)));
  }
  int64_t used = 0, most = 0;
  if (!absl::SimpleAtoi(fields["used_memory"], &used)) return std::nullopt;
  for (const char* limit : {"maxmemory", "total_system_memory"}) {
    if (absl::SimpleAtoi(fields[limit], &most) && most > 0)
      return std::max<int64_t>(0, most - used);
  }
  return std::nullopt;
}

// A record has few values beside its marks.
constexpr JsonLimits kRecordLimits = {.depth = 4, .values = 1'000'000};

std::string_view Text(const redisReply& reply) {
  return reply.str == nullptr ? std::string_view() : std::string_view(reply.str, reply.len);
}

std::vector<std::string> Texts(const redisReply& reply) {
  std::vector<std::string> texts;
  texts.reserve(reply.elements);
  for (size_t i = 0; i < reply.elements; ++i) texts.emplace_back(Text(*reply.element[i]));
  return texts;
}

std::string Micros(absl::Time time) { return absl::StrCat(absl::ToUnixMicros(time)); }

// Asks for the two fields of a manifest that make a record.
std::array<std::string_view, 4> RecordCommand(std::string_view manifest) {
  return {"HMGET", manifest, "record", "last_used"};
}

}  // namespace

int64_t RedisNumber(const std::vector<std::string>& answer, size_t word) {
  int64_t number = 0;
  if (word < answer.size() && absl::SimpleAtoi(answer[word], &number)) return number;
  return 0;
}

std::string RedisTier::ManifestKey(const std::string& id) const {
  return absl::StrCat(options_.keys, "session:", id);
}

std::string RedisTier::PiecesPrefix(const std::string& id) const {
  return absl::StrCat(options_.keys, "piece:", id, ":");
}

std::string RedisTier::CreatedKey(const SessionRecord& record) const {
  if (record.creation_key.empty()) return "";
  // Lengths keep apart what could be split in two ways.
  return absl::StrCat(options_.keys, "created:", record.owner.size(), ":", record.owner, ":",
                      record.parent_id, ":", record.creation_key);
}

absl::Status RedisTier::Open() {
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  if (!connection.ok()) return connection.status();
  // Without the permission for INFO there is no check, and no limit unless a budget was given.
  const absl::StatusOr<RedisReply> info = (*connection)->Call({"INFO", "memory"});
  if (info.ok()) {
    const absl::string_view text((*info)->str, (*info)->len);
    if (absl::StrContains(text, kDropsAnyKey) && !absl::StrContains(text, "\r\nmaxmemory:0\r\n")) {
      return absl::FailedPreconditionError(
          absl::StrCat("Redis at ", client_.address().Display(),
                       " drops any key when its memory is full; set maxmemory-policy noeviction"));
    }
    free_ = FreeMemory(text);
  }
  const absl::StatusOr<RedisReply> bytes = (*connection)->Call({"GET", Key(kTotalKey)});
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<RedisReply> sessions = (*connection)->Call({"SCARD", Key(kIndexKey)});
  if (!sessions.ok()) return sessions.status();
  SetUsage({"ok", std::string(Text(**bytes)), absl::StrCat((*sessions)->integer)});
  if (budget_ == 0 && free_) budget_ = BudgetWithin(usage().bytes, *free_);
  return absl::OkStatus();
}

absl::StatusOr<RedisTier::Words> RedisTier::Run(Connection& connection,
                                                std::initializer_list<const char*> script,
                                                const std::string& id, const Words& arguments) {
  std::string source;
  for (const char* part : script) source += part;
  const std::string manifest = ManifestKey(id), index = Key(kIndexKey), total = Key(kTotalKey);
  const std::string prefix = PiecesPrefix(id);
  const std::string epoch = absl::StrCat(Epoch(id));
  std::vector<std::string_view> command = {"EVAL", source, "3",    manifest, index,
                                           total,  id,     prefix, epoch};
  command.insert(command.end(), arguments.begin(), arguments.end());
  if (absl::Status status = connection->Send(command); !status.ok()) return status;
  const absl::StatusOr<RedisReply> reply = connection->Receive();
  if (!reply.ok()) return reply.status();
  Words words = Texts(**reply);
  if (words.empty()) words.emplace_back();
  return words;
}

absl::StatusOr<RedisTier::Words> RedisTier::Run(std::initializer_list<const char*> script,
                                                const std::string& id, const Words& arguments) {
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  if (!connection.ok()) return connection.status();
  return Run(*connection, script, id, arguments);
}

absl::Status RedisTier::NotDone(const std::string& id, const Words& answer,
                                int64_t record_version) {
  const std::string& why = answer[0];
  const std::string session = absl::StrCat("session ", id);
  if (why == "newer") {
    return Refused(Reason::kSessionMoved,
                   absl::StrCat(session, ": version ", answer[1],
                                " is stored, this server has the older version ", record_version));
  }
  if (why == "claimed") {
    return Refused(Reason::kSessionMoved,
                   absl::StrCat(session, ": another server writes it since claim ", answer[1],
                                "; this server has ",
                                Epoch(id) == 0 ? "none" : absl::StrCat("claim ", Epoch(id))));
  }
  if (why == "deleted") {
    ForgetSession(id);
    return Refused(Reason::kSessionMoved,
                   absl::StrCat(session, ": it was deleted, perhaps by another server"));
  }
  if (why == "absent") return absl::NotFoundError(absl::StrCat(session, " is not stored"));
  if (why == "full") {
    return absl::ResourceExhaustedError(
        absl::StrCat(session, ": the sessions in Redis at ", client_.address().Display(), " take ",
                     answer[1], " of ", budget_, " bytes; delete sessions or raise the budget"));
  }
  if (why == "lost") {
    return absl::UnavailableError(absl::StrCat(session, ": Redis at ", client_.address().Display(),
                                               " lost ", answer[1],
                                               " before the state was stored"));
  }
  return absl::InternalError(
      absl::StrCat(session, ": Redis at ", client_.address().Display(), " answered \"", why, "\""));
}

absl::StatusOr<SessionRecord> RedisTier::Parse(const std::string& id, std::string_view record,
                                               std::string_view last_used) {
  const absl::StatusOr<nlohmann::json> json = ParseJsonObject(record, "record", kRecordLimits);
  absl::StatusOr<SessionRecord> parsed =
      json.ok() ? RecordFromJson(*json, "record") : json.status();
  if (parsed.ok() && parsed->id == id) {
    const int64_t micros = RedisNumber({std::string(last_used)}, 0);
    parsed->last_used = std::max(parsed->last_used, absl::FromUnixMicros(micros));
    return parsed;
  }
  SetCorrupt(id);
  return absl::DataLossError(absl::StrCat("session ", id, ": its record in Redis at ",
                                          client_.address().Display(), ": ",
                                          parsed.ok() ? absl::StrCat("is of session ", parsed->id)
                                                      : std::string(parsed.status().message())));
}

absl::Status RedisTier::ForEach(const std::function<void(SessionRecord)>& visit) {
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  if (!connection.ok()) return connection.status();
  std::set<std::string> seen;  // a scan may name one twice
  const std::string index = Key(kIndexKey);
  std::string cursor = "0";
  do {
    absl::StatusOr<RedisReply> page =
        (*connection)->Call({"SSCAN", index, cursor, "COUNT", kScanCount});
    if (!page.ok()) return page.status();
    cursor = Text(*(*page)->element[0]);
    std::vector<std::string> ids = Texts(*(*page)->element[1]);
    std::erase_if(ids,
                  [&](const std::string& id) { return id.empty() || !seen.insert(id).second; });
    for (const std::string& id : ids) {
      const std::string manifest = ManifestKey(id);
      if (absl::Status s = (*connection)->Send(RecordCommand(manifest)); !s.ok()) return s;
    }
    for (const std::string& id : ids) {
      const absl::StatusOr<RedisReply> reply = (*connection)->Receive();
      if (!reply.ok()) return reply.status();
      const Words record = Texts(**reply);
      if (record[0].empty()) continue;  // deleted meanwhile
      absl::StatusOr<SessionRecord> parsed = Parse(id, record[0], record[1]);
      if (parsed.ok()) visit(*std::move(parsed));
    }
  } while (cursor != "0");
  return absl::OkStatus();
}

absl::StatusOr<SessionRecord> RedisTier::Find(const std::string& id) {
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  if (!connection.ok()) return connection.status();
  const std::string manifest = ManifestKey(id);
  if (absl::Status s = (*connection)->Send(RecordCommand(manifest)); !s.ok()) return s;
  const absl::StatusOr<RedisReply> reply = (*connection)->Receive();
  if (!reply.ok()) return reply.status();
  const Words record = Texts(**reply);
  if (record[0].empty()) {
    return absl::NotFoundError(absl::StrCat("session ", id, " is not stored"));
  }
  return Parse(id, record[0], record[1]);
}

absl::Status RedisTier::Delete(const std::string& id) {
  // A first commit that has yet to arrive would find nothing to tell it of the end.
  if (absl::Status status = Settle(id); !status.ok()) return status;
  const absl::StatusOr<Words> answer = Run({kCommon, kErase, kDelete}, id, {kDeletedSeconds});
  if (!answer.ok()) return answer.status();
  if ((*answer)[0] != "ok") return NotDone(id, *answer, 0);
  SetUsage(*answer);
  ForgetSession(id);
  return absl::OkStatus();
}

absl::Status RedisTier::Touch(const std::string& id, absl::Time last_used) {
  const absl::StatusOr<Words> answer = Run({kCommon, kTouch}, id, {Micros(last_used)});
  if (!answer.ok()) return answer.status();
  return (*answer)[0] == "ok" ? absl::OkStatus() : NotDone(id, *answer, 0);
}

absl::StatusOr<SessionRecord> RedisTier::Claim(const std::string& id, absl::Time now) {
  const absl::StatusOr<Words> answer = Run({kCommon, kClaim}, id, {Micros(now)});
  if (!answer.ok()) return answer.status();
  if ((*answer)[0] != "ok" || answer->size() != 4) return NotDone(id, *answer, 0);
  SetEpoch(id, RedisNumber(*answer, 1));
  {
    // What was under way belongs to an earlier claim now, and what is stored is what counts.
    const MutexLock lock(&mutex_);
    attempts_.erase(id);
    undone_.erase(id);
  }
  return Parse(id, (*answer)[2], (*answer)[3]);
}

absl::StatusOr<DurableTier::Standing> RedisTier::Look(const std::string& id) {
  if (absl::Status status = Settle(id); !status.ok()) return status;
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<RedisReply> reply =
      (*connection)->Call({"HMGET", ManifestKey(id), "epoch", "version", "deleted"});
  if (!reply.ok()) return reply.status();
  const Words standing = Texts(**reply);
  const bool owned = Epoch(id) >= RedisNumber(standing, 0);
  if (!owned && RedisNumber(standing, 2) != 0) ForgetSession(id);
  return Standing{.owned = owned, .version = RedisNumber(standing, 1)};
}

absl::StatusOr<bool> RedisTier::DeleteUnused(const std::string& id, absl::Time since) {
  const absl::StatusOr<Words> answer =
      Run({kCommon, kErase, kDeleteUnused}, id, {kDeletedSeconds, Micros(since)});
  if (!answer.ok()) return answer.status();
  if ((*answer)[0] == "used") return false;
  if ((*answer)[0] != "ok") return NotDone(id, *answer, 0);
  SetUsage(*answer);
  ForgetSession(id);
  return true;
}

absl::StatusOr<std::vector<std::string>> RedisTier::CreatedBy(const SessionRecord& like) {
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  if (!connection.ok()) return connection.status();
  const absl::StatusOr<RedisReply> ids = (*connection)->Call({"SMEMBERS", CreatedKey(like)});
  if (!ids.ok()) return ids.status();
  return Texts(**ids);
}

absl::StatusOr<std::string> RedisTier::Instance() {
  absl::StatusOr<Connection> connection = client_.BorrowForQuery();
  if (!connection.ok()) return connection.status();
  const std::string key = Key(kInstanceKey);
  // Written by the first server that finds none: two may look at the same time.
  for (const bool write : {false, true}) {
    if (write) {
      const auto set = (*connection)->Call({"SET", key, NewRedisToken(), "NX"});
      if (!set.ok()) return set.status();
    }
    const absl::StatusOr<RedisReply> name = (*connection)->Call({"GET", key});
    if (!name.ok()) return name.status();
    if ((*name)->type == REDIS_REPLY_STRING) return std::string(Text(**name));
  }
  return absl::UnavailableError(
      absl::StrCat("Redis at ", client_.address().Display(), " lost its data just now"));
}

DurableTier::Usage RedisTier::usage() const {
  const MutexLock lock(&mutex_);
  Usage usage = usage_;
  usage.budget = budget_;
  usage.free = free_;
  usage.corrupt = found_corrupt_;
  return usage;
}

void RedisTier::SetUsage(const Words& answer) {
  const MutexLock lock(&mutex_);
  usage_.bytes = RedisNumber(answer, 1);
  usage_.sessions = RedisNumber(answer, 2);
}

int64_t RedisTier::Epoch(const std::string& id) const {
  const MutexLock lock(&mutex_);
  const auto epoch = epochs_.find(id);
  return epoch == epochs_.end() ? 0 : epoch->second;
}

void RedisTier::SetEpoch(const std::string& id, int64_t epoch) {
  const MutexLock lock(&mutex_);
  int64_t& known = epochs_[id];
  known = std::max(known, epoch);
}

void RedisTier::SetCorrupt(const std::string& id) {
  const MutexLock lock(&mutex_);
  if (corrupt_.insert(id).second) ++found_corrupt_;
}

void RedisTier::ForgetSession(const std::string& id) {
  const MutexLock lock(&mutex_);
  epochs_.erase(id);
  attempts_.erase(id);
  undone_.erase(id);
  corrupt_.erase(id);
}

absl::StatusOr<std::unique_ptr<DurableTier>> OpenRedisTier(const std::string& url,
                                                           const RedisTierOptions& options) {
  const absl::StatusOr<RedisAddress> address = ParseRedisUrl(url);
  if (!address.ok()) return address.status();
  auto tier = std::make_unique<RedisTier>(*address, options);
  if (absl::Status status = tier->Open(); !status.ok()) return status;
  return tier;
}

}  // namespace tvq
