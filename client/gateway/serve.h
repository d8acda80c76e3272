// Runs the gateway: listens, answers, and stops gracefully.
#ifndef TVQ_CLIENT_GATEWAY_SERVE_H_
#define TVQ_CLIENT_GATEWAY_SERVE_H_

#include "client/gateway/options.h"

namespace tvq::gateway {

// Until SIGINT or SIGTERM has come and the requests have ended; then the process exits with 0. The
// line `listening on URL` goes to stdout. Returns 1, and says why in the log, if it cannot listen.
int Serve(const GatewayOptions& options);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_SERVE_H_
