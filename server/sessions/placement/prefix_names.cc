#include "server/sessions/placement/prefix_names.h"

#include <openssl/sha.h>

#include <array>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

std::string Sha256(const std::string& text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash;
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  return {reinterpret_cast<const char*>(hash.data()), hash.size()};
}

}  // namespace

std::vector<std::string> PrefixNames(const std::string& scope, const std::string& owner,
                                     const ModelInfo& model, std::span<const int32_t> prompt) {
  const auto chunk = static_cast<size_t>(model.config.prefill_chunk);
  // Lengths keep apart what could be split in two ways.
  std::string link =
      Sha256(absl::StrCat(model.fingerprint, " ", Name(model.dtype), " ", Name(model.state_dtype),
                          " ", chunk, " ", scope.size(), " ", scope, owner));
  std::vector<std::string> names;
  for (; prompt.size() >= chunk; prompt = prompt.subspan(chunk)) {
    const auto bytes = std::as_bytes(prompt.first(chunk));
    link.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    link = Sha256(link);
    names.push_back(absl::BytesToHexString(link));
  }
  return names;
}

}  // namespace tvq
