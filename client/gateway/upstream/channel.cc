#include "client/gateway/upstream/channel.h"

#include "client/cpp/transport.h"

namespace tvq::gateway {
namespace {

// A server that was away is found again within this time, also where its name has another address
// by then.
constexpr int kReconnectMs = 500;
// For one attempt, the handshakes of TCP, TLS and HTTP/2: a packet that is lost is sent again after
// a second.
constexpr int kConnectMs = 2000;
// After so much silence a server is asked whether it is there; it allows a question every ten
// seconds.
constexpr int kKeepaliveMs = 30'000;
constexpr int kKeepaliveTimeoutMs = 10'000;
// What the server may send of a call before it is read. By itself gRPC takes what the line gives,
// megabytes for each client that reads nothing.
constexpr int kAheadBytes = 256 << 10;

}  // namespace

absl::StatusOr<std::unique_ptr<Upstream>> Upstream::Open(const client::ConnectOptions& given,
                                                         int connections,
                                                         asio::any_io_executor loop) {
  const auto checked = client::Checked(given);
  if (!checked.ok()) return checked.status();
  const client::ConnectOptions& options = *checked;
  auto credentials = client::Credentials(options);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectMs);  // gRPC's name for that
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kReconnectMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMs);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kAheadBytes);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // clients of the gateway decide that
  // Otherwise channels to one address share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  std::unique_ptr<Upstream> upstream(new Upstream(options.address, std::move(loop)));
  for (int i = 0; i < connections; ++i) {
    Stubs stubs;
    stubs.channel = client::NewChannel(options, *credentials, arguments);
    stubs.generation = v1::GenerationService::NewStub(stubs.channel);
    stubs.sessions = v1::SessionService::NewStub(stubs.channel);
    stubs.models = v1::ModelService::NewStub(stubs.channel);
    stubs.queue = upstream->queue_.grpc();
    upstream->stubs_.push_back(std::move(stubs));
  }
  return upstream;
}

const Stubs& Upstream::Next() {
  const size_t first = next_++;
  const Stubs* best = &stubs_[first % stubs_.size()];
  // One that has not connected yet begins to, so that all have their share.
  grpc_connectivity_state best_state = best->channel->GetState(true);
  for (size_t i = 1; i < stubs_.size() && best_state != GRPC_CHANNEL_READY; ++i) {
    const Stubs& other = stubs_[(first + i) % stubs_.size()];
    const grpc_connectivity_state state = other.channel->GetState(false);
    if (state != GRPC_CHANNEL_READY && best_state != GRPC_CHANNEL_TRANSIENT_FAILURE) continue;
    best = &other;
    best_state = state;
  }
  return *best;
}

}  // namespace tvq::gateway
