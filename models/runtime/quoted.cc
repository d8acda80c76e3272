#include "models/runtime/quoted.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace tvq {

std::string Quoted(std::string_view text) {
  constexpr size_t kLongest = 100;
  const bool cut = text.size() > kLongest;
  const std::string shown(text.substr(0, kLongest));
  return absl::StrCat("\"", absl::CEscape(shown), cut ? "..." : "", "\"");
}

}  // namespace tvq
