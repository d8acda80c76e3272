// The file of keys.
//
// Each key has a line: NAME SHA256HEX [PERMISSION,...] [LIMIT=N ...]. Permissions are generate,
// sessions and admin; the default is generate,sessions. The limits are those of OwnerLimits:
// weight, max-num-seqs and max-num-admitted-seqs. NAME is the owner of what is made with the key.
// Two keys of the same name belong to one owner, and must have the same limits. A # begins a
// comment, which ends with the line.
#ifndef TVQ_SERVER_RPC_ACCESS_API_KEYS_H_
#define TVQ_SERVER_RPC_ACCESS_API_KEYS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/read_file.h"
#include "server/engine/request/owner_limits.h"
#include "server/rpc/access/caller.h"

namespace tvq {

using Sha256 = std::array<uint8_t, 32>;

struct ApiKey {
  std::string name;
  Sha256 hash;  // of the key, which is nowhere kept
  bool generate = false;
  bool sessions = false;
  bool admin = false;
  // What the line says of the owner's limits.
  std::optional<int32_t> weight;
  std::optional<int64_t> max_num_seqs;
  std::optional<int64_t> max_num_admitted_seqs;

  bool Allows(Permission permission) const;
  // `limits`, but for those that the line gives.
  OwnerLimits LimitsOver(OwnerLimits limits) const;

  bool operator==(const ApiKey&) const = default;
};

// Constant after construction.
class ApiKeys {
 public:
  // INVALID_ARGUMENT names `file` and the line, or NOT_FOUND the file that cannot be read. A file
  // without keys is an error: nobody could call.
  static absl::StatusOr<ApiKeys> Read(const std::string& file, Pipes pipes);
  static absl::StatusOr<ApiKeys> Parse(std::string_view text, const std::string& file);

  // Nothing for a key that is not in the file. The time it takes tells nothing about the keys.
  const ApiKey* Find(std::string_view key) const;

  // Whether a key bears this name.
  bool HasOwner(std::string_view name) const;

  size_t size() const { return keys_.size(); }

  bool operator==(const ApiKeys&) const = default;

 private:
  explicit ApiKeys(std::vector<ApiKey> keys) : keys_(std::move(keys)) {}

  std::vector<ApiKey> keys_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ACCESS_API_KEYS_H_
