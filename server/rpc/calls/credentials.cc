#include "server/rpc/calls/credentials.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq {

// The keys are read before the certificates are exchanged and exchanged after: an error of either
// leaves both as they were.
absl::StatusOr<Credentials::Reloaded> Credentials::Reload() {
  const MutexLock lock(&mutex_);
  Reloaded reloaded;
  absl::StatusOr<std::shared_ptr<const ApiKeys>> keys = gate_->ReadKeys();
  if (!keys.ok()) return keys.status();
  if (tls_ != nullptr) {
    const absl::StatusOr<bool> changed = tls_->Reload();
    if (!changed.ok()) return changed.status();
    reloaded.certificates = *changed;
  }
  if (*keys != nullptr) {
    reloaded.keys = static_cast<int64_t>((*keys)->size());
    gate_->UseKeys(*std::move(keys));
  }
  return reloaded;
}

std::string Describe(const Credentials::Reloaded& reloaded) {
  return absl::StrCat(reloaded.keys, reloaded.keys == 1 ? " key, " : " keys, ",
                      reloaded.certificates ? "new certificates" : "no new certificates");
}

}  // namespace tvq
