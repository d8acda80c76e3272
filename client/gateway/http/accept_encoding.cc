#include "client/gateway/http/accept_encoding.h"

#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace tvq::gateway {
namespace {

// "q=0.5" and the like; nothing weighs 1, and what is no weight weighs nothing.
bool HasWeight(absl::string_view parameter) {
  parameter = absl::StripAsciiWhitespace(parameter);
  if (parameter.empty()) return true;
  if (!absl::ConsumePrefix(&parameter, "q=") && !absl::ConsumePrefix(&parameter, "Q="))
    return false;
  double weight = 0;
  return absl::SimpleAtod(parameter, &weight) && weight > 0;
}

}  // namespace

bool AcceptsGzip(const Request& request) {
  std::optional<bool> gzip;
  std::optional<bool> any;
  for (const Header& header : request.headers) {
    if (!absl::EqualsIgnoreCase(header.name, "accept-encoding")) continue;
    for (const absl::string_view item : absl::StrSplit(header.value, ',')) {
      const std::pair<absl::string_view, absl::string_view> parts =
          absl::StrSplit(item, absl::MaxSplits(';', 1));
      const absl::string_view coding = absl::StripAsciiWhitespace(parts.first);
      if (coding == "*") any = HasWeight(parts.second);
      if (absl::EqualsIgnoreCase(coding, "gzip") || absl::EqualsIgnoreCase(coding, "x-gzip")) {
        gzip = HasWeight(parts.second);
      }
    }
  }
  return gzip.value_or(any.value_or(false));
}

}  // namespace tvq::gateway
