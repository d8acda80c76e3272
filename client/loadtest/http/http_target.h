#ifndef TVQ_CLIENT_LOADTEST_HTTP_HTTP_TARGET_H_
#define TVQ_CLIENT_LOADTEST_HTTP_HTTP_TARGET_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/loadtest/driver/target.h"
#include "client/loadtest/http/url.h"
#include "client/loadtest/workload/time.h"

namespace tvq::loadtest {

struct HttpOptions {
  Url url;
  std::string api_key;     // sent as a bearer key; empty: none
  bool keep_alive = true;  // false: a connection for each request
  std::string ca_file;     // https: the certificate's authorities; empty: the system's
  // A kept connection that ends within this time of a request counts as closed while it was idle.
  Nanos stale_within = 50 * kMillisecond;
};

// A tvq-gateway, or another server of OpenAI's completions. A request that runs has a connection of
// its own. NOT_FOUND for a host or a file that cannot be found.
absl::StatusOr<std::unique_ptr<Target>> OpenHttpTarget(const HttpOptions& options);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_HTTP_HTTP_TARGET_H_
