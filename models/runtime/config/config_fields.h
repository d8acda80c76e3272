// Reads fields of config.json one after the other: after the first error later calls do nothing.
#ifndef TVQ_MODELS_RUNTIME_CONFIG_CONFIG_FIELDS_H_
#define TVQ_MODELS_RUNTIME_CONFIG_CONFIG_FIELDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "models/runtime/config/config.h"

namespace tvq {

// A generous limit that keeps every product of two dimensions far from overflow.
inline constexpr int64_t kMaxDim = 1 << 20;
inline constexpr int64_t kMaxLayers = 4096;

class ConfigFields {
 public:
  explicit ConfigFields(const Config& config) : config_(config) {}

  bool ok() const { return status_.ok(); }
  // INVALID_ARGUMENT naming file and field and what would be right.
  const absl::Status& status() const { return status_; }
  const Config& config() const { return config_; }

  // As Config's methods of these names, into `value`.
  void Common(CommonConfig* value);
  void Int(const char* name, int64_t* value, int64_t min, int64_t max,
           std::optional<int64_t> fallback = {});
  void Number(const char* name, double* value, double min, double max,
              std::optional<double> fallback = {});
  void Bool(const char* name, bool* value, bool fallback = false);

  // The index in `choices` of the field's string; 0 if the field is absent.
  size_t Choice(const char* name, const std::vector<std::string>& choices);

  // An error if the field is there: other families have it, but this model cannot use it.
  void Refuse(const char* name, const std::string& why);

  // An error unless `right`: the field, which is `value`, must be as `wanted` says.
  void Require(bool right, const char* name, int64_t value, const std::string& wanted);

  // An error if rows * width is above 2^30. The fields `names` together ask for so many numbers, in
  // a table, a state or the working memory.
  void LimitSize(const char* names, int64_t rows, int64_t width);

 private:
  template <typename T>
  void Take(absl::StatusOr<T> read, T* value);
  void Fail(const std::string& message);

  const Config& config_;
  absl::Status status_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_CONFIG_CONFIG_FIELDS_H_
