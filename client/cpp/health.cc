#include "client/cpp/health.h"

#include <grpcpp/impl/codegen/client_unary_call.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <atomic>
#include <memory>

#include "client/cpp/grpc_call.h"
#include "client/cpp/transport.h"
#include "client/cpp/unverified_credentials.h"
#include "grpc/health/v1/health.pb.h"

namespace tvq::client {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

}  // namespace

absl::StatusOr<Health> CheckHealth(const ConnectOptions& given, const CallOptions& options) {
  const auto connect = Checked(given);
  if (!connect.ok()) return connect.status();
  const auto seen = std::make_shared<std::atomic<bool>>(false);
  const auto credentials = UnverifiedCredentials(*connect, seen);
  if (!credentials.ok()) return credentials.status();
  const Transport transport = {NewChannel(*connect, *credentials), "", connect->address};
  const grpc::internal::RpcMethod method("/grpc.health.v1.Health/Check",
                                         grpc::internal::RpcMethod::NORMAL_RPC, transport.channel);
  const auto answer = Unary<HealthCheckResponse>(
      transport, options, [&](grpc::ClientContext* context, HealthCheckResponse* response) {
        return grpc::internal::BlockingUnaryCall<HealthCheckRequest, HealthCheckResponse>(
            transport.channel.get(), method, context, HealthCheckRequest(), response);
      });
  if (answer.ok())
    return answer->status() == HealthCheckResponse::SERVING ? Health::kServing
                                                            : Health::kNotServing;
  // With a connection the answer is the server's, or that of a proxy.
  const bool refused = *seen && transport.channel->GetState(false) != GRPC_CHANNEL_READY;
  if (absl::IsUnavailable(answer.status()) && refused) return Health::kAlive;
  return answer.status();
}

}  // namespace tvq::client
