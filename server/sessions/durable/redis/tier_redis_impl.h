// A DurableTier in a Redis; see tier_redis.h.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_REDIS_TIER_REDIS_IMPL_H_
#define TVQ_SERVER_SESSIONS_DURABLE_REDIS_TIER_REDIS_IMPL_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "server/sessions/durable/redis/redis_address.h"
#include "server/sessions/durable/redis/redis_client.h"
#include "server/sessions/durable/redis/redis_pieces.h"
#include "server/sessions/durable/redis/tier_redis.h"

namespace tvq {

class RedisTier : public DurableTier {
 public:
  RedisTier(const RedisAddress& address, const RedisTierOptions& options)
      : options_(options), budget_(options.budget_bytes), client_(address, options.timeouts) {}

  // Checks that the Redis can be used.
  absl::Status Open();

  absl::Status ForEach(const std::function<void(SessionRecord)>& visit) override;
  absl::StatusOr<SessionRecord> Find(const std::string& id) override;
  absl::Status Put(const SessionRecord& record, int64_t version, int64_t bytes,
                   const std::function<absl::Status(const ByteSink&)>& write) override;
  absl::StatusOr<std::unique_ptr<ByteSource>> Get(const std::string& id, int64_t version) override;
  absl::Status Delete(const std::string& id) override;
  absl::Status Touch(const std::string& id, absl::Time last_used) override;
  bool shared() const override { return true; }
  absl::StatusOr<SessionRecord> Claim(const std::string& id, absl::Time now) override;
  absl::StatusOr<Standing> Look(const std::string& id) override;
  void ForgetClaim(const std::string& id) override { ForgetSession(id); }
  absl::StatusOr<bool> DeleteUnused(const std::string& id, absl::Time since) override;
  absl::StatusOr<std::vector<std::string>> CreatedBy(const SessionRecord& like) override;
  absl::StatusOr<std::string> Instance() override;
  Usage usage() const override;

 private:
  using Connection = RedisClient::Lent;
  using Words = std::vector<std::string>;  // what a script answered, at least one

  // A kCommit whose answer was lost, until it is known what became of it.
  struct Attempt {
    int64_t version = 0;
    std::string place;
    bool with_record = false;  // that version's own; else of a mark
  };

  // Where things are in Redis.
  std::string Key(const char* name) const { return options_.keys + name; }
  std::string ManifestKey(const std::string& id) const;
  std::string PiecesPrefix(const std::string& id) const;
  std::string CreatedKey(const SessionRecord& record) const;  // empty without a creation_key

  absl::StatusOr<Words> Run(Connection& connection, std::initializer_list<const char*> script,
                            const std::string& id, const Words& arguments);
  // On a connection of its own, for scripts that are answered at once.
  absl::StatusOr<Words> Run(std::initializer_list<const char*> script, const std::string& id,
                            const Words& arguments);
  // For a script's answer that is not "ok".
  absl::Status NotDone(const std::string& id, const Words& answer, int64_t record_version);
  absl::StatusOr<SessionRecord> Parse(const std::string& id, std::string_view record,
                                      std::string_view last_used);

  // tier_redis_put.cc
  Words Admission(const SessionRecord& record, int64_t version, int64_t bytes) const;
  // Learns what became of the session's Attempt, if there is one, and sees to it that what was not
  // done by now never is.
  absl::Status Settle(const std::string& id);
  // Whether the Attempt was done.
  absl::StatusOr<bool> Settle(const std::string& id, const Attempt& attempt);
  // What Put answers that got `why` for its commit.
  absl::Status SettleNow(const std::string& id, const Attempt& attempt, const absl::Status& why);
  void Forget(const PieceLayout& layout);
  absl::StatusOr<std::string> Locate(const std::string& id, int64_t version);
  absl::Status Lost(const std::string& id, int64_t version, const std::string& place,
                    int64_t piece);

  void SetUsage(const Words& answer);
  int64_t Epoch(const std::string& id) const;  // 0: not claimed
  // Claims may be answered in another order than they were made in.
  void SetEpoch(const std::string& id, int64_t epoch);
  void SetCorrupt(const std::string& id);
  // For a session that was deleted, or is another's: what Redis has of it refuses those without a
  // claim, too.
  void ForgetSession(const std::string& id);

  const RedisTierOptions options_;
  int64_t budget_;  // constant after Open; 0: no limit, where Redis does not say what is free
  std::optional<int64_t> free_;  // constant after Open
  RedisClient client_;
  mutable Mutex mutex_;
  absl::flat_hash_map<std::string, int64_t> epochs_ ABSL_GUARDED_BY(mutex_);  // of our claims
  absl::flat_hash_map<std::string, Attempt> attempts_ ABSL_GUARDED_BY(mutex_);
  // The newest version in Redis, where its Put failed and only later turned out to be done: an
  // earlier one may replace it.
  absl::flat_hash_map<std::string, int64_t> undone_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_set<std::string> corrupt_ ABSL_GUARDED_BY(mutex_);
  int64_t found_corrupt_ ABSL_GUARDED_BY(mutex_) = 0;
  Usage usage_ ABSL_GUARDED_BY(mutex_);  // as Redis last said; not `corrupt`
};

std::string NewRedisToken();  // 16 random hexadecimal digits

// The number that a script answered as this word; 0 if there is none.
int64_t RedisNumber(const std::vector<std::string>& answer, size_t word);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_REDIS_TIER_REDIS_IMPL_H_
