#include "server/startup/open_sessions.h"

#include <spdlog/spdlog.h>

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/read_file.h"
#include "server/rpc/access/api_keys.h"
#include "server/sessions/durable/disk/tier_disk.h"
#include "server/sessions/durable/redis/tier_redis.h"
#include "server/startup/readable_bytes.h"

namespace tvq {
namespace {

constexpr int64_t kMaxPromptBytes = int64_t{1} << 28;

absl::Status OfFlag(absl::string_view flag, const absl::Status& status) {
  return {status.code(), absl::StrCat(flag, ": ", status.message())};
}

// What the sessions at `place` may take where no flag says it.
void TellBudget(const SessionFlags& flags, const DurableTier::Usage& usage,
                const std::string& place) {
  if (flags.disk_bytes > 0) return;
  if (usage.budget > 0) {
    spdlog::info(
        "{} for the sessions in {}: what they have, and nine tenths of what is free "
        "(--session-disk-bytes)",
        ReadableBytes(usage.budget), place);
  } else {
    spdlog::warn(
        "{} does not say what is free: no limit for the sessions there "
        "(--session-disk-bytes)",
        place);
  }
}

absl::StatusOr<std::unique_ptr<DurableTier>> OpenTier(const SessionFlags& flags) {
  if (!flags.redis.empty()) {
    auto redis = OpenRedisTier(flags.redis, {.budget_bytes = flags.disk_bytes});
    if (!redis.ok()) return OfFlag("--redis", redis.status());
    TellBudget(flags, (*redis)->usage(), "Redis");
    return redis;
  }
  if (flags.dir.empty()) return nullptr;
  auto disk = DiskTier::Open(flags.dir, flags.disk_bytes);
  if (!disk.ok()) return OfFlag("--session-dir", disk.status());
  for (const std::string& problem : (*disk)->problems()) spdlog::error("{}", problem);
  TellBudget(flags, (*disk)->usage(), flags.dir);
  return *std::move(disk);
}

// For states of common prompts, beside the sessions'. Null if none are stored.
absl::StatusOr<std::unique_ptr<DurableTier>> OpenPrefixTier(const SessionFlags& flags) {
  const int64_t bytes = flags.options.stored_prefix_bytes;
  if (bytes == 0 || flags.options.prefix_bytes == 0) return nullptr;
  if (!flags.redis.empty()) {
    auto redis = OpenRedisTier(flags.redis, {.budget_bytes = bytes, .keys = "tvq:prefix:"});
    if (!redis.ok()) return OfFlag("--redis", redis.status());
    return redis;
  }
  if (flags.dir.empty()) return nullptr;
  auto disk = DiskTier::Open(flags.dir + "/prefixes", bytes);
  if (!disk.ok()) return OfFlag("--session-dir", disk.status());
  for (const std::string& problem : (*disk)->problems()) spdlog::warn("{}", problem);
  return *std::move(disk);
}

// Nothing if the file is wrong, of which the server has complained.
std::optional<ApiKeys> KeysOf(const std::string& file) {
  auto keys = ApiKeys::Read(file, Pipes::kDoNotWait);
  return keys.ok() ? std::optional<ApiKeys>(*std::move(keys)) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<SessionStore>> OpenSessions(Engine* engine,
                                                           const SessionFlags& flags) {
  SessionOptions options = flags.options;
  if (flags.ttl > 0) options.default_ttl = absl::Seconds(flags.ttl);
  for (const std::string& file : flags.shared_prompt_files) {
    auto prompt = ReadNamedFile("--shared-prompt-file", file, Pipes::kWait, kMaxPromptBytes);
    if (!prompt.ok()) return prompt.status();
    options.shared_prompts.push_back(*std::move(prompt));
  }
  options.on_loss = [](const std::string& message) { spdlog::warn("{}", message); };
  auto tier = OpenTier(flags);
  if (!tier.ok()) return tier.status();
  auto prefixes = OpenPrefixTier(flags);
  if (!prefixes.ok()) return prefixes.status();
  auto store = SessionStore::Open(engine, options, *std::move(tier), *std::move(prefixes));
  if (!store.ok()) return store.status();
  const size_t found = (*store)->Records().size();
  if (found > 0) spdlog::info("sessions found: {}", found);
  return store;
}

void WarnOfUnreachable(const SessionStore& sessions, const std::string& api_key_file) {
  const auto keys = api_key_file.empty() ? std::optional<ApiKeys>() : KeysOf(api_key_file);
  int64_t without_key = 0, of_other_keys = 0;
  for (const SessionRecord& record : sessions.Records()) {
    if (keys ? keys->HasOwner(record.owner) : record.owner.empty()) continue;
    ++(record.owner.empty() ? without_key : of_other_keys);
  }
  if (without_key > 0) {
    spdlog::warn(
        "{} sessions were made without keys: no key reaches them, a server without "
        "--api-key-file does",
        without_key);
  }
  if (of_other_keys > 0) {
    spdlog::warn("{} sessions belong to keys that this server does not know: no call reaches them",
                 of_other_keys);
  }
}

}  // namespace tvq
