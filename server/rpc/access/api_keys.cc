#include "server/rpc/access/api_keys.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tvq {
namespace {

constexpr size_t kMaxNameBytes = 64;
constexpr int64_t kMostSequences = 1 << 20;

Sha256 HashOf(std::string_view key) {
  Sha256 hash;
  SHA256(reinterpret_cast<const unsigned char*>(key.data()), key.size(), hash.data());
  return hash;
}

std::optional<Sha256> HashFromHex(const std::string& hex) {
  if (hex.size() != 64 || !std::all_of(hex.begin(), hex.end(),
                                       [](unsigned char c) { return absl::ascii_isxdigit(c); })) {
    return std::nullopt;
  }
  const std::string bytes = absl::HexStringToBytes(hex);
  Sha256 hash;
  std::copy(bytes.begin(), bytes.end(), hash.begin());
  return hash;
}

bool IsName(const std::string& name) {
  return name.size() <= kMaxNameBytes && std::all_of(name.begin(), name.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
         });
}

// Returns what is wrong, or an empty string.
std::string Permit(const std::string& permissions, ApiKey* key) {
  for (const std::string& permission : std::vector<std::string>(absl::StrSplit(permissions, ','))) {
    if (permission == "generate") {
      key->generate = true;
    } else if (permission == "sessions") {
      key->sessions = true;
    } else if (permission == "admin") {
      key->admin = true;
    } else {
      return absl::StrCat("the permission \"", permission,
                          "\" is none of generate, sessions and admin");
    }
  }
  return "";
}

// Reads "NAME=N". Returns what is wrong, or an empty string.
std::string Limit(const std::string& word, ApiKey* key) {
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  int64_t value = 0;
  const bool number = absl::SimpleAtoi(word.substr(equals + 1), &value);
  const auto set = [&](auto& limit, int64_t least, int64_t most) -> std::string {
    if (limit) return absl::StrCat(name, " is given twice");
    if (!number || value < least || value > most) {
      return absl::StrCat(name, " must be a number from ", least, " to ", most);
    }
    limit = value;
    return "";
  };
  if (name == "weight") return set(key->weight, 1, OwnerLimits::kMaxWeight);
  if (name == "max-num-seqs") return set(key->max_num_seqs, 0, kMostSequences);
  if (name == "max-num-admitted-seqs") return set(key->max_num_admitted_seqs, 0, kMostSequences);
  return absl::StrCat("the limit \"", name,
                      "\" is none of weight, max-num-seqs and max-num-admitted-seqs");
}

// Returns what is wrong with the line, or an empty string. Never quotes the word of the hash: in a
// line of the wrong form it may be the key itself.
std::string ParseLine(const std::vector<std::string>& words, ApiKey* key) {
  constexpr const char* kForm = ", must be NAME SHA256HEX [PERMISSION,...] [LIMIT=N ...]";
  if (words.size() < 2) return absl::StrCat("has ", words.size(), " words", kForm);
  key->name = words[0];
  if (!IsName(key->name)) {
    return absl::StrCat("the name must be at most ", kMaxNameBytes,
                        " letters, digits, dots, dashes and underscores");
  }
  const std::optional<Sha256> hash = HashFromHex(words[1]);
  if (!hash) return "the second word must be the key's SHA-256 in 64 hexadecimal digits";
  key->hash = *hash;
  std::string permissions;
  for (size_t i = 2; i < words.size(); ++i) {
    if (words[i].find('=') != std::string::npos) {
      if (std::string wrong = Limit(words[i], key); !wrong.empty()) return wrong;
    } else if (permissions.empty()) {
      permissions = words[i];
    } else {
      return absl::StrCat("has two words of permissions", kForm);
    }
  }
  return Permit(permissions.empty() ? "generate,sessions" : permissions, key);
}

// What is wrong with a key beside those before it, or an empty string.
std::string Beside(const ApiKey& key, const std::vector<ApiKey>& keys) {
  for (const ApiKey& other : keys) {
    if (other.hash == key.hash) return "the same key is given twice";
    if (other.name == key.name && other.LimitsOver({}) != key.LimitsOver({})) {
      return "the limits are others than those of a key of the same name before";
    }
  }
  return "";
}

}  // namespace

bool ApiKey::Allows(Permission permission) const {
  switch (permission) {
    case Permission::kAny:
      return true;
    case Permission::kGenerate:
      return generate;
    case Permission::kSessions:
      return sessions;
    case Permission::kAdmin:
      return admin;
  }
  return false;
}

OwnerLimits ApiKey::LimitsOver(OwnerLimits limits) const {
  limits.weight = weight.value_or(limits.weight);
  limits.max_num_seqs = max_num_seqs.value_or(limits.max_num_seqs);
  limits.max_num_admitted_seqs = max_num_admitted_seqs.value_or(limits.max_num_admitted_seqs);
  return limits;
}

absl::StatusOr<ApiKeys> ApiKeys::Read(const std::string& file, Pipes pipes) {
  absl::StatusOr<std::string> text = ReadNamedFile("api key file", file, pipes);
  if (!text.ok()) return text.status();
  return Parse(*text, file);
}

absl::StatusOr<ApiKeys> ApiKeys::Parse(std::string_view text, const std::string& file) {
  std::vector<ApiKey> keys;
  const std::vector<std::string> lines =
      absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::vector<std::string> words = absl::StrSplit(
        lines[i].substr(0, lines[i].find('#')), absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    if (words.empty()) continue;
    ApiKey key;
    std::string wrong = ParseLine(words, &key);
    if (wrong.empty()) wrong = Beside(key, keys);
    if (!wrong.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("api key file ", file, ", line ", i + 1, ": ", wrong));
    }
    keys.push_back(std::move(key));
  }
  if (keys.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("api key file ", file, ": holds no key, so nobody could call"));
  }
  return ApiKeys(std::move(keys));
}

const ApiKey* ApiKeys::Find(std::string_view key) const {
  const Sha256 hash = HashOf(key);
  const ApiKey* found = nullptr;
  for (const ApiKey& candidate : keys_) {  // all of them, also after the right one
    if (CRYPTO_memcmp(candidate.hash.data(), hash.data(), hash.size()) == 0) found = &candidate;
  }
  return found;
}

bool ApiKeys::HasOwner(std::string_view name) const {
  return std::any_of(keys_.begin(), keys_.end(),
                     [&](const ApiKey& key) { return key.name == name; });
}

}  // namespace tvq
