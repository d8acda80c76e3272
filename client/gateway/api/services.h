// What the code that answers requests shares.
#ifndef TVQ_CLIENT_GATEWAY_API_SERVICES_H_
#define TVQ_CLIENT_GATEWAY_API_SERVICES_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/gateway/api/metrics.h"
#include "client/gateway/api/side_threads.h"
#include "client/gateway/http/router.h"
#include "client/gateway/upstream/channel.h"

namespace tvq::gateway {

// Outlives the loop.
struct Services {
  Upstream& upstream;
  Metrics& metrics;
  SideThreads& beside;
  size_t max_body_bytes;
  std::string version;  // of the gateway
  // So long after one call of a stream began, another that the server has neither begun nor refused
  // waits in its queue: it has been accepted.
  std::chrono::milliseconds refusal_timeout{1000};
};

// Each adds the paths it answers.
void AddCompletions(Services& services, Router* router);
void AddModels(Services& services, Router* router);
void AddHealth(Services& services, Router* router);
void AddChat(Services& services, Router* router);
void AddEmbeddings(Services& services, Router* router);
void AddTokens(Services& services, Router* router);
void AddSessions(Services& services, Router* router);
void AddSnapshots(Services& services, Router* router);

// Warns in the log if no server answers, and tells when one does: the gateway goes on meanwhile.
class ServerWatch {
 public:
  ServerWatch(Services& services, const asio::any_io_executor& executor)
      : services_(services), between_(executor) {}

  asio::awaitable<void> Run();  // ends when it has found one
  // Ends it soon, of the loop, which ends when nothing waits any more.
  void Stop();

 private:
  asio::awaitable<absl::Status> AskServer();

  Services& services_;
  asio::steady_timer between_;
  std::function<void()> cancel_;  // the last question
  bool stopped_ = false;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_SERVICES_H_
