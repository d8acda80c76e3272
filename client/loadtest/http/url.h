#ifndef TVQ_CLIENT_LOADTEST_HTTP_URL_H_
#define TVQ_CLIENT_LOADTEST_HTTP_URL_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace tvq::loadtest {

struct Url {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  std::string port;
  std::string prefix;  // of every path; without a slash at its end
  // HOST:PORT, with brackets where they belong.
  std::string authority() const;
};

// http://HOST[:PORT][/PREFIX], or https. INVALID_ARGUMENT says what is wrong.
absl::StatusOr<Url> ParseUrl(std::string_view text);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_HTTP_URL_H_
