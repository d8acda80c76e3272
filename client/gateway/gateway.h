// Puts together what answers requests.
#ifndef TVQ_CLIENT_GATEWAY_GATEWAY_H_
#define TVQ_CLIENT_GATEWAY_GATEWAY_H_

#include <cstdint>
#include <functional>

#include "client/gateway/api/services.h"
#include "client/gateway/http/connection.h"
#include "client/gateway/http/router.h"
#include "client/gateway/origins.h"

namespace tvq::gateway {

// Used by the loop's thread.
class Gateway {
 public:
  Gateway(Services& services, Origins origins);

  // For an HttpServer, which must not outlive the gateway.
  ConnectionHooks Hooks();
  // How many connections there are, for metrics.
  void CountConnections(std::function<int64_t()> count) { connections_ = std::move(count); }

 private:
  asio::awaitable<void> Answer(Exchange& exchange);
  asio::awaitable<void> ShowMetrics(Exchange& exchange);
  // Adds what a browser wants to know of a page elsewhere. False: it may not call.
  bool ApplyOrigin(Exchange& exchange) const;

  Services& services_;
  const Origins origins_;
  std::function<int64_t()> connections_;
  Router router_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_GATEWAY_H_
