#include "server/rpc/calls/call_gate.h"

#include <chrono>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/access/peer_network.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/wire/status.h"

namespace tvq {
namespace {

constexpr std::string_view kScheme = "Bearer ";

std::optional<std::string_view> Authorization(const grpc::ServerContextBase& rpc) {
  const auto [first, last] = rpc.client_metadata().equal_range("authorization");
  if (first == last || std::next(first) != last) return std::nullopt;
  return std::string_view(first->second.data(), first->second.size());
}

const char* Name(Permission permission) {
  switch (permission) {
    case Permission::kAny:
      return "any";
    case Permission::kGenerate:
      return "generate";
    case Permission::kSessions:
      return "sessions";
    case Permission::kAdmin:
      return "admin";
  }
  return "";
}

}  // namespace

CallGate::CallGate(CallGateOptions options)
    : options_(std::move(options)), limiter_(options_.max_requests_per_second) {}

absl::StatusOr<std::unique_ptr<CallGate>> CallGate::Create(const CallGateOptions& options) {
  std::unique_ptr<CallGate> gate(new CallGate(options));
  auto keys = gate->ReadKeys();
  if (!keys.ok()) return keys.status();
  gate->UseKeys(*std::move(keys));
  return gate;
}

absl::Status CallGate::Admit(const MethodInfo& method, grpc::ServerContextBase* rpc,
                             Caller* caller) {
  caller->request_id = RequestId(*rpc);
  if (auto status = Authorize(method, Authorization(*rpc), caller); !status.ok()) return status;
  // Sessions and prefixes belong to a key, or to all; turns and shares to a key, or to a network.
  caller->sharer = has_keys() ? caller->owner : NetworkOfPeer(rpc->peer());
  if (has_keys()) key_holders_.Add(rpc->peer());
  if (method.permission == Permission::kAdmin) return absl::OkStatus();  // needed most under load
  const auto wait = limiter_.Take(caller->sharer, std::chrono::steady_clock::now());
  if (!wait) return absl::OkStatus();
  return Refused(
      Refusal{
          .reason = Reason::kRateExceeded, .retry = Retry::kAfter, .retry_after_ms = wait->count()},
      absl::StrCat("more than ", options_.max_requests_per_second, " requests per second of this ",
                   has_keys() ? "key" : "address", "; try again in ", wait->count(), " ms"));
}

absl::Status CallGate::Authorize(const MethodInfo& method,
                                 std::optional<std::string_view> authorization,
                                 Caller* caller) const {
  const std::shared_ptr<const ApiKeys> keys = this->keys();
  caller->limits = options_.limits;
  if (keys == nullptr) return absl::OkStatus();
  if (!authorization || authorization->size() <= kScheme.size() ||
      !absl::EqualsIgnoreCase(std::string(authorization->substr(0, kScheme.size())),
                              std::string(kScheme))) {
    return Refused(Reason::kApiKeyUnknown, "authorization",
                   "this server needs a key, sent once as \"authorization: Bearer KEY\"");
  }
  const ApiKey* const key = keys->Find(authorization->substr(kScheme.size()));
  if (key == nullptr) {
    return Refused(Reason::kApiKeyUnknown, "authorization", "the key is not known here");
  }
  if (!key->Allows(method.permission)) {
    return Refused(
        Reason::kPermissionMissing, "authorization",
        absl::StrCat("the key ", key->name, " lacks the permission ", Name(method.permission)));
  }
  caller->owner = key->name;
  caller->limits = key->LimitsOver(options_.limits);
  caller->admin = key->admin;
  caller->sessions = key->Allows(Permission::kSessions);
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const ApiKeys>> CallGate::ReadKeys() const {
  if (!has_keys()) return nullptr;
  absl::StatusOr<ApiKeys> keys = ApiKeys::Read(
      options_.api_key_file, this->keys() == nullptr ? Pipes::kWait : Pipes::kDoNotWait);
  if (!keys.ok()) return keys.status();
  return std::make_shared<const ApiKeys>(*std::move(keys));
}

void CallGate::UseKeys(std::shared_ptr<const ApiKeys> keys) {
  const MutexLock lock(&mutex_);
  const bool same = keys_ == nullptr || *keys == *keys_;
  keys_ = std::move(keys);
  if (!same) key_holders_.ForgetAll();
}

std::shared_ptr<const ApiKeys> CallGate::keys() const {
  const MutexLock lock(&mutex_);
  return keys_;
}

}  // namespace tvq
