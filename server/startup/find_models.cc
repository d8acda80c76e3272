#include "server/startup/find_models.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tvq {

absl::StatusOr<std::vector<ModelFlag>> FindModels(const std::string& dir) {
  std::vector<ModelFlag> models;
  std::error_code error;
  std::filesystem::directory_iterator entry(dir, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code absent;
    if (!std::filesystem::exists(entry->path() / "config.json", absent)) continue;
    models.push_back({.name = entry->path().filename().string(), .dir = entry->path().string()});
  }
  if (error) return absl::InvalidArgumentError(absl::StrCat(dir, ": ", error.message()));
  std::error_code unseen;
  if (models.empty() &&
      std::filesystem::exists(std::filesystem::path(dir) / "config.json", unseen)) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir,
                     ": is a model itself, must be the folder that its folder is in; "
                     "--model NAME=",
                     dir, " serves it alone"));
  }
  if (models.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(dir, ": none of its folders is a model, with a config.json"));
  }
  std::sort(models.begin(), models.end(),
            [](const ModelFlag& a, const ModelFlag& b) { return a.name < b.name; });
  return models;
}

}  // namespace tvq
