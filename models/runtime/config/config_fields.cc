#include "models/runtime/config/config_fields.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tvq {
namespace {

constexpr int64_t kMaxFloats = int64_t{1} << 30;

}  // namespace

template <typename T>
void ConfigFields::Take(absl::StatusOr<T> read, T* value) {
  if (read.ok()) {
    *value = *std::move(read);
  } else {
    status_ = read.status();
  }
}

void ConfigFields::Fail(const std::string& message) {
  status_ = absl::InvalidArgumentError(absl::StrCat(config_.source(), ": ", message));
}

void ConfigFields::Common(CommonConfig* value) {
  if (ok()) Take(config_.Common(), value);
}

void ConfigFields::Int(const char* name, int64_t* value, int64_t min, int64_t max,
                       std::optional<int64_t> fallback) {
  if (ok()) Take(config_.Int(name, min, max, fallback), value);
}

void ConfigFields::Number(const char* name, double* value, double min, double max,
                          std::optional<double> fallback) {
  if (ok()) Take(config_.Number(name, min, max, fallback), value);
}

void ConfigFields::Bool(const char* name, bool* value, bool fallback) {
  if (ok()) Take(config_.Bool(name, fallback), value);
}

size_t ConfigFields::Choice(const char* name, const std::vector<std::string>& choices) {
  std::string found = choices[0];
  if (ok()) Take(config_.String(name, found), &found);
  const auto choice = std::find(choices.begin(), choices.end(), found);
  if (choice != choices.end()) return static_cast<size_t>(choice - choices.begin());
  Fail(absl::StrCat(name, " is \"", found, "\", must be one of: ", absl::StrJoin(choices, ", ")));
  return 0;
}

void ConfigFields::Refuse(const char* name, const std::string& why) {
  if (ok() && config_.Has(name)) Fail(absl::StrCat(name, " must not be there: ", why));
}

void ConfigFields::Require(bool right, const char* name, int64_t value, const std::string& wanted) {
  if (ok() && !right) Fail(absl::StrCat(name, " is ", value, ", must ", wanted));
}

void ConfigFields::LimitSize(const char* names, int64_t rows, int64_t width) {
  if (!ok() || width == 0 || rows <= kMaxFloats / width) return;
  Fail(absl::StrCat(names, " together ask for ", rows, " x ", width, " numbers, must be at most ",
                    kMaxFloats));
}

}  // namespace tvq
