#ifndef TVQ_CLIENT_LOADTEST_HTTP_HTTP_TRANSPORT_H_
#define TVQ_CLIENT_LOADTEST_HTTP_HTTP_TRANSPORT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/loadtest/driver/target.h"
#include "client/loadtest/driver/transport.h"
#include "client/loadtest/http/http_target.h"

namespace tvq::loadtest {

// A transport on one asio loop that also makes single requests.
class HttpTransport : public Transport {
 public:
  // Waits for the answer to a request without a stream: its body. UNAVAILABLE or UNKNOWN, with the
  // server's message, for anything but 2xx. Not within Run.
  virtual absl::StatusOr<std::string> Fetch(const std::string& method, const std::string& path,
                                            const std::string& body) = 0;
};

// NOT_FOUND for a host or a file that cannot be found.
absl::StatusOr<std::unique_ptr<HttpTransport>> MakeHttpTransport(const HttpOptions& options,
                                                                 const RequestSettings& settings);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_HTTP_HTTP_TRANSPORT_H_
