#include "server/rpc/call_gate.h"

#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/call_context.h"

namespace tvq {
namespace {

constexpr std::string_view kScheme = "Bearer ";

std::optional<std::string_view> Authorization(const grpc::CallbackServerContext& rpc) {
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

absl::StatusOr<std::unique_ptr<CallGate>> CallGate::Create(const CallGateOptions& options) {
  std::unique_ptr<CallGate> gate(new CallGate(options));
  if (const auto keys = gate->Reload(); !keys.ok()) return keys.status();
  return gate;
}

absl::Status CallGate::Admit(const MethodInfo& method, grpc::CallbackServerContext* rpc,
                             Caller* caller) {
  caller->request_id = RequestId(*rpc);
  return Admit(method, Authorization(*rpc), caller);
}

absl::Status CallGate::Admit(const MethodInfo& method,
                             std::optional<std::string_view> authorization, Caller* caller) {
  const std::shared_ptr<const ApiKeys> keys = this->keys();
  if (keys == nullptr) return absl::OkStatus();
  if (!authorization || authorization->size() <= kScheme.size() ||
      !absl::EqualsIgnoreCase(std::string(authorization->substr(0, kScheme.size())),
                              std::string(kScheme))) {
    return absl::UnauthenticatedError(
        "authorization: this server needs a key, sent once as the metadata "
        "\"authorization: Bearer KEY\"");
  }
  const ApiKey* const key = keys->Find(authorization->substr(kScheme.size()));
  if (key == nullptr) return absl::UnauthenticatedError("authorization: the key is not known here");
  if (!key->Allows(method.permission)) {
    return absl::PermissionDeniedError(absl::StrCat(
        "authorization: the key ", key->name, " lacks the permission ", Name(method.permission)));
  }
  caller->owner = key->name;
  caller->admin = key->admin;
  return absl::OkStatus();
}

absl::StatusOr<int> CallGate::Reload() {
  if (!has_keys()) return 0;
  absl::StatusOr<ApiKeys> read = ApiKeys::Read(options_.api_key_file);
  if (!read.ok()) return read.status();
  auto keys = std::make_shared<const ApiKeys>(*std::move(read));
  const int count = static_cast<int>(keys->size());
  absl::MutexLock lock(&mutex_);
  keys_ = std::move(keys);
  return count;
}

std::shared_ptr<const ApiKeys> CallGate::keys() const {
  absl::MutexLock lock(&mutex_);
  return keys_;
}

}  // namespace tvq
