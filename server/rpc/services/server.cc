#include "server/rpc/services/server.h"

#include <google/protobuf/stubs/logging.h>
#include <grpc/grpc.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "base/usable_cores.h"
#include "server/rpc/limits/connections/channelz.h"
#include "server/rpc/limits/connections/close_connections.h"
#include "server/rpc/limits/connections/header_blocks.h"
#include "server/rpc/listen/listener.h"
#include "server/rpc/listen/listening_sockets.h"
#include "server/rpc/listen/room.h"
#include "server/rpc/services/admin_service.h"
#include "server/rpc/services/generation_service.h"
#include "server/rpc/services/health_service.h"
#include "server/rpc/services/session_service.h"
#include "server/rpc/transport/call_thread.h"
#include "tvq/v1/admin.grpc.pb.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq {
namespace {

using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

// Calls are short work for a thread: two keep up with several hundred thousand messages/s. One
// spends less time on each, as it sleeps less often in between, which counts where the model takes
// every core.
int CallThreads(const ServerOptions& options) {
  if (options.call_threads > 0) return options.call_threads;
  return UsableCores() > 4 ? 2 : 1;
}

// Long requests that are tokenized at once; more wait, the longer ones longer. Each may take
// seconds, so one worker more is for the shorter of them alone.
constexpr int kWorkers = 2;
constexpr int64_t kMaxWorkerBytes = int64_t{256} << 20;  // of them, and of those that wait

// Threads for tasks that wait for disk or network, and the most bytes that waiting tasks keep.
constexpr int kSessionThreads = 20;
constexpr int kSessionThreadsOfOwner = 16;  // which may wait for long where the tier is away
constexpr int64_t kMaxSessionTaskBytes = int64_t{64} << 20;

// Large enough that one owner may send two of the largest snapshots, or one with the largest
// request that may come with it. ByteQuota wants a fifteenth of both left to others, and keeps a
// sixteenth of the whole.
int64_t UploadBytes(const SessionStore* sessions, const ServerOptions& options) {
  constexpr int64_t kIdBytes = 4;  // of an id that has one byte on its way
  const int64_t one = sessions == nullptr ? 0 : sessions->max_upload_bytes();
  const int64_t most = one + std::max(one, kIdBytes * options.max_message_bytes);
  return most / 225 * 256 + 256;
}

// How long the last answers may take to go out; then streams end that never end by themselves.
constexpr std::chrono::milliseconds kLastBytes{100};

// How long gRPC may take after that to close the connections. It does not close those to which it
// writes what the client does not read.
constexpr absl::Duration kClosing = absl::Milliseconds(200);

// Of the largest, being received, when the flags do not say how many bytes.
constexpr int64_t kDefaultRequestsInMemory = 32;

// gRPC's threads for reflection: one for each of its streams, also of clients without a key, and
// one that waits for the next stream. gRPC ends streams beyond that with RESOURCE_EXHAUSTED.
constexpr int kSynchronousThreads = 64;

int Milliseconds(std::chrono::seconds seconds) {
  const auto ms = std::chrono::milliseconds(seconds).count();
  return static_cast<int>(std::min<int64_t>(ms, std::numeric_limits<int>::max()));
}

// Read from a connection at once. gRPC takes in all streams that lie in one read before it serves,
// or takes apart, any of them; left alone it reads up to 4 MiB.
constexpr int kMaxReadBytes = 8 << 10;

// gRPC reads a whole request before we see its key. Beyond this it ends calls by itself.
int64_t ConnectionBytes(const ServerOptions& options) {
  if (options.max_connection_bytes > 0) return options.max_connection_bytes;
  return kDefaultRequestsInMemory * options.max_message_bytes;
}

ListenerOptions ListenerOptionsOf(const ServerOptions& options, const KeyHolders* key_holders) {
  return {.tls = options.tls.enabled(),
          .acknowledge = options.keepalive_timeout,
          .max_descriptors = options.max_descriptors,
          .max_connections = options.max_connections,
          .key_holders = key_holders};
}

// max_bytes is half of ConnectionBytes: when all are in use, gRPC ends any calls and connections.
ConnectionLimits ConnectionLimitsOf(const ServerOptions& options) {
  ConnectionLimits limits = options.connections;
  limits.max_message_bytes = options.max_message_bytes;
  limits.max_bytes = ConnectionBytes(options) / 2;
  return limits;
}

// That health knows.
std::set<std::string> ServiceNames(bool sessions, bool admin) {
  std::set<std::string> names{"", v1::GenerationService::service_full_name(),
                              v1::ModelService::service_full_name()};
  if (sessions) names.insert(v1::SessionService::service_full_name());
  if (admin) names.insert(v1::AdminService::service_full_name());
  return names;
}

void SetLimits(const ServerOptions& options, grpc::ServerBuilder* builder) {
  grpc::ResourceQuota quota("tvq");
  quota.Resize(static_cast<size_t>(ConnectionBytes(options)));
  quota.SetMaxThreads(kSynchronousThreads);
  builder->SetResourceQuota(quota);
  builder->SetMaxReceiveMessageSize(static_cast<int>(options.max_message_bytes));
  // gRPC 1.51 expands a message to whatever size, before a key was looked at.
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder->SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, Milliseconds(options.keepalive_time));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                              Milliseconds(options.keepalive_timeout));
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  // Clients may ping as often as every ten seconds, between calls too.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 10'000);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS,
                              static_cast<int>(options.connections.max_streams));
  builder->AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kMaxReadBytes);
  // What the guard of the connections reads.
  builder->AddChannelArgument(GRPC_ARG_ENABLE_CHANNELZ, 1);
  builder->AddChannelArgument(GRPC_ARG_MAX_CHANNEL_TRACE_EVENT_MEMORY_PER_NODE, 0);
  builder->AddChannelArgument(GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, Milliseconds(Room::kHandshake));
  // Reflection is the only synchronous service.
  builder->SetSyncServerOption(grpc::ServerBuilder::SyncServerOption::NUM_CQS, 1);
}

}  // namespace

class Server::Impl {
 public:
  // What can be wrong before the server listens.
  struct Parts {
    std::unique_ptr<CallRecorder> recorder;
    std::unique_ptr<CallGate> gate;
    std::unique_ptr<Tls> tls;  // null without TLS
  };

  Impl(Engine* engine, SessionStore* sessions, Parts parts, ServerDescription description,
       const ServerOptions& options)
      : recorder_(std::move(parts.recorder)),
        gate_(std::move(parts.gate)),
        tls_(std::move(parts.tls)),
        credentials_(gate_.get(), tls_.get()),
        calls_("open calls", std::max(options.max_open_calls, 2 * options.connections.max_streams),
               "places", Reason::kCallsFull),
        uploads_("snapshots on their way in", UploadBytes(sessions, options)),
        vectors_("vectors that are asked for, or wait for their clients,",
                 options.max_vector_bytes),
        answers_("answers that are asked for, or wait for their clients,",
                 options.max_answer_bytes),
        workers_({.threads = kWorkers,
                  .bytes = &unread_,
                  .order = TaskPool::Order::kShortFirst,
                  .short_bytes = kShortWorkBytes}),
        session_tasks_({.threads = kSessionThreads,
                        .most_of_owner = kSessionThreadsOfOwner,
                        .bytes = &unopened_}),
        context_{.engine = engine,
                 .sessions = sessions,
                 .gate = gate_.get(),
                 .recorder = recorder_.get(),
                 .limits = options.limits,
                 .workers = &workers_,
                 .session_tasks = &session_tasks_,
                 .calls = &calls_,
                 .uploads = &uploads_,
                 .vectors = &vectors_,
                 .answers = &answers_,
                 .stall_timeout = options.stall_timeout,
                 .open_calls = &open_calls_,
                 .draining = &draining_},
        generation_(context_),
        sessions_(context_),
        models_(context_, std::move(description)),
        admin_(context_, &credentials_, options.drain),
        health_(ServiceNames(sessions != nullptr, gate_->has_keys())) {
    services_ = {&generation_, &models_, &health_};
    if (sessions != nullptr) services_.push_back(&sessions_);
    if (gate_->has_keys()) services_.push_back(&admin_);
  }

  ~Impl() { StopThreads(); }

  absl::Status Start(const ServerOptions& options) {
    // Its complaints about clients' messages go to the client, as a status.
    google::protobuf::SetLogHandler(nullptr);
    grpc::reflection::InitProtoReflectionServerBuilderPlugin();
    auto listening = ListenOn(options.host, options.port);
    if (!listening.ok()) return listening.status();
    port_ = listening->port;
    auto listener = Listener::Create(*std::move(listening),
                                     ListenerOptionsOf(options, gate_->key_holders()), &admission_);
    if (!listener.ok()) return listener.status();
    listener_ = *std::move(listener);
    grpc::ServerBuilder builder;
    const std::shared_ptr<Acceptor> acceptor = builder.experimental().AddExternalConnectionAcceptor(
        grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
        tls_ == nullptr ? grpc::InsecureServerCredentials() : tls_->Credentials());
    for (CallService* const service : services_) builder.RegisterService(service);
    SetLimits(options, &builder);
    for (int i = 0; i < CallThreads(options); ++i) {
      threads_.push_back(std::make_unique<CallThread>(builder.AddCompletionQueue()));
    }
    server_ = builder.BuildAndStart();
    for (const auto& thread : threads_) thread->Start();
    if (server_ == nullptr) return absl::InternalError("gRPC's server does not start");
    for (const auto& thread : threads_) {
      for (CallService* const service : services_) service->Take(thread.get());
    }
    guard_.emplace(ConnectionLimitsOf(options), &admission_, gate_->key_holders());
    listener_->Start([acceptor, tls = tls_ != nullptr](Descriptor fd) {
      if (!tls) WatchHeaders(fd.get());
      Acceptor::NewConnectionParameters connection;
      connection.fd = fd.Release();
      acceptor->HandleNewConnection(&connection);
    });
    SetProgressing(true);
    return absl::OkStatus();
  }

  int port() const { return port_; }
  CallCounts call_counts() const { return recorder_->counts(); }
  Credentials& credentials() { return credentials_; }
  int64_t closed_connections() const {
    return guard_->closed() + listener_->closed() + FailedForHeaders();
  }

  void SetDraining() {
    draining_ = true;
    const MutexLock lock(&health_mutex_);
    SetHealth();
  }

  void SetProgressing(bool progressing) {
    const MutexLock lock(&health_mutex_);
    progressing_ = progressing;
    SetHealth();
  }

  void FinishCalls(SteadyTime until, const std::stop_token& stop) {
    open_calls_.WaitForWork(until, stop);
  }

  void StopListening() {
    if (closing_.joinable() || closed_.HasBeenNotified()) return;
    listener_->Stop();
    closing_ = std::thread([this] {
      server_->Shutdown();  // however long it takes
      closed_.Notify();
    });
  }

  void Shutdown(SteadyTime until) {
    if (server_ == nullptr) return;
    open_calls_.WaitForNone(until);
    ShutdownServer(until);
    StopThreads();
  }

 private:
  void StopThreads() {
    for (const auto& thread : threads_) thread->Stop();
  }

  void ShutdownServer(SteadyTime until) {
    StopListening();
    const auto left =
        std::min<std::chrono::nanoseconds>(until - std::chrono::steady_clock::now(), kLastBytes);
    // As gRPC does at the end of the time that a Shutdown is given.
    if (!closed_.WaitForNotificationWithTimeout(absl::FromChrono(left))) {
      grpc_server_cancel_all_calls(server_->c_server());
    }
    // gRPC would wait until the kernel gives such a connection up.
    if (!closed_.WaitForNotificationWithTimeout(kClosing)) {
      CloseConnections(OpenConnectionsAt(port_));
    }
    if (closing_.joinable()) closing_.join();
  }

  void SetHealth() ABSL_EXCLUSIVE_LOCKS_REQUIRED(health_mutex_) {
    health_.SetServing(progressing_ && !draining_);
  }

  // Destroyed last to first: the server ends the calls, then the pools run what the calls left.
  const std::unique_ptr<CallRecorder> recorder_;
  const std::unique_ptr<CallGate> gate_;
  const std::unique_ptr<Tls> tls_;  // null without TLS
  Credentials credentials_;
  OpenCalls open_calls_;
  std::atomic<bool> draining_ = false;
  ByteQuota calls_;
  ByteQuota uploads_;
  ByteQuota vectors_;
  ByteQuota answers_;
  ByteQuota unread_{"large requests that wait to be read", kMaxWorkerBytes};
  ByteQuota unopened_{"calls on sessions that wait", kMaxSessionTaskBytes};
  std::vector<std::unique_ptr<CallThread>> threads_;
  TaskPool workers_;
  TaskPool session_tasks_;
  const CallContext context_;
  GenerationService generation_;
  SessionService sessions_;
  ModelService models_;
  AdminService admin_;
  HealthService health_;
  std::vector<CallService*> services_;  // that the server has
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  Admission admission_;
  std::optional<ConnectionGuard> guard_;
  std::unique_ptr<Listener> listener_;
  std::thread closing_;  // ends gRPC's server, once the port is closed
  absl::Notification closed_;
  Mutex health_mutex_;
  bool progressing_ ABSL_GUARDED_BY(health_mutex_) = true;
};

Server::Server(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Server::~Server() { Shutdown(std::chrono::steady_clock::now()); }

absl::StatusOr<std::unique_ptr<Server>> Server::Start(Engine* engine, SessionStore* sessions,
                                                      ServerDescription description,
                                                      const ServerOptions& options) {
  Impl::Parts parts{.recorder = std::make_unique<CallRecorder>(options.log_call)};
  auto gate = CallGate::Create(options.gate);
  if (!gate.ok()) return gate.status();
  parts.gate = *std::move(gate);
  if (options.tls.enabled()) {
    auto tls = Tls::Create(options.tls);
    if (!tls.ok()) return tls.status();
    parts.tls = *std::move(tls);
  }
  auto impl =
      std::make_unique<Impl>(engine, sessions, std::move(parts), std::move(description), options);
  if (auto status = impl->Start(options); !status.ok()) return status;
  return std::unique_ptr<Server>(new Server(std::move(impl)));
}

int Server::port() const { return impl_->port(); }

CallCounts Server::call_counts() const { return impl_->call_counts(); }

Credentials& Server::credentials() { return impl_->credentials(); }
int64_t Server::closed_connections() const { return impl_->closed_connections(); }

void Server::SetDraining() { impl_->SetDraining(); }

void Server::SetProgressing(bool progressing) { impl_->SetProgressing(progressing); }

void Server::FinishCalls(SteadyTime until, const std::stop_token& stop) {
  impl_->FinishCalls(until, stop);
}

void Server::StopListening() { impl_->StopListening(); }

void Server::Shutdown(SteadyTime until) { impl_->Shutdown(until); }

}  // namespace tvq
