// Runs the calls of a generating request and sends what they say.
#ifndef TVQ_CLIENT_GATEWAY_API_GENERATE_H_
#define TVQ_CLIENT_GATEWAY_API_GENERATE_H_

#include <boost/asio/awaitable.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/gateway/api/services.h"
#include "client/gateway/bodies/errors.h"
#include "client/gateway/bodies/events.h"
#include "client/gateway/http/exchange.h"
#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// Why the call with this number failed, as the client is told.
using CallError = std::function<ApiError(const absl::Status& status, size_t call)>;

// The requests lose their prompts when the calls have begun: those may be megabytes each.
//
// Sends server-sent events. They begin when all calls compute, or Services::refusal_timeout after
// one of them does: a call that then still waits in the server's queue was accepted. An error
// before that becomes an HTTP error. If the client hangs up, or reads nothing for too long, the
// calls are cancelled.
asio::awaitable<void> StreamAnswer(Services& services, Exchange& exchange,
                                   std::vector<v1::GenerateRequest>& requests,
                                   const CallError& to_error, Events& events);

asio::awaitable<void> WholeAnswer(Services& services, Exchange& exchange,
                                  std::vector<v1::GenerateRequest>& requests,
                                  const CallError& to_error, std::unique_ptr<Whole> whole);

// `name`, or if it is empty the server's first model.
asio::awaitable<absl::StatusOr<std::string>> ModelNamed(Services& services, Exchange& exchange,
                                                        std::string name);

// The model a call is for: the one it names, or else its session's, or the server's first one.
asio::awaitable<absl::StatusOr<std::string>> ModelOf(Services& services, Exchange& exchange,
                                                     const v1::GenerateRequest& call);

// Of an answer that begins now; `kind` is the prefix of its id.
AnswerHead MakeHead(const Exchange& exchange, const char* kind, std::string model);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_API_GENERATE_H_
