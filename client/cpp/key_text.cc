#include "client/cpp/key_text.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/read_file.h"

namespace tvq::client {

absl::StatusOr<std::string> ReadKeyText(const std::string& text) {
  if (!text.starts_with('@')) return text;
  const std::string name = text.substr(1);
  if (name.empty()) {
    return absl::InvalidArgumentError("--api-key: @ must stand before the name of a file");
  }
  const std::string file = name == "-" ? "/dev/stdin" : name;
  auto key = ReadNamedFile("--api-key: file", file, Pipes::kWaitIfWritten);
  if (!key.ok()) return key.status();
  key->resize(std::min(key->find('\n'), key->size()));
  absl::StripAsciiWhitespace(&*key);
  if (!key->empty()) return key;
  return absl::InvalidArgumentError(
      absl::StrCat("--api-key: the first line of ", file, " must be the key"));
}

}  // namespace tvq::client
