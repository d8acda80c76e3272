#include "server/sessions/store/context.h"

#include "absl/strings/str_cat.h"
#include "base/quoted.h"
#include "base/refusal.h"

namespace tvq {

absl::StatusOr<size_t> StoreContext::ModelIndex(const std::string& name) const {
  const auto& models = engine->models();
  if (name.empty()) {
    if (models.size() == 1) return 0;
    return Refused(
        Reason::kValueMissing, "model",
        absl::StrCat("must be given, because the server has ", models.size(), " models"));
  }
  for (size_t i = 0; i < models.size(); ++i) {
    if (models[i].name == name) return i;
  }
  return Refused(Reason::kModelUnknown, "model", absl::StrCat("there is no model ", Quoted(name)));
}

absl::Status StoreContext::CheckDurability(Durability durability) const {
  if (durability != Durability::kDisk || durable != nullptr) return absl::OkStatus();
  return Refused(Reason::kDurabilityMissing, "durability",
                 "must be memory or left out, for the server keeps sessions in memory alone: it "
                 "was started without --session-dir and --redis");
}

}  // namespace tvq
