#include "server/rpc/hand_over.h"

#include <arpa/inet.h>
#include <grpcpp/grpcpp.h>
#include <netinet/in.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "server/rpc/grpc_time.h"
#include "server/rpc/session_convert.h"
#include "server/rpc/task_pool.h"
#include "tvq/v1/admin.grpc.pb.h"

namespace tvq {
namespace {

using SteadyClock = std::chrono::steady_clock;

// Sessions on their way at once: enough to hide the network's latency.
constexpr int kSenders = 4;

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

// Whether HOST:PORT is this machine for certain.
bool IsLoopback(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  in_addr v4;
  in6_addr v6;
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  if (inet_pton(AF_INET6, host.c_str(), &v6) == 1) return IN6_IS_ADDR_LOOPBACK(&v6);
  return host == "localhost";
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const PeerOptions& peer) {
  if (auto status = CheckPeer(peer); !status.ok()) return status;
  if (!peer.tls.enabled()) return grpc::InsecureChannelCredentials();
  const auto texts = ReadTlsFiles(peer.tls);
  if (!texts.ok()) return texts.status();
  return grpc::SslCredentials({.pem_root_certs = texts->ca,
                               .pem_private_key = texts->key,
                               .pem_cert_chain = texts->certificates});
}

// Whether other sessions would fare no better.
bool TakesNothing(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsUnauthenticated(status) ||
         absl::IsPermissionDenied(status) || absl::IsUnimplemented(status) ||
         absl::IsDeadlineExceeded(status);
}

class Sender {
 public:
  Sender(SessionStore& store, const PeerOptions& peer,
         const std::shared_ptr<grpc::ChannelCredentials>& credentials, SteadyTime until,
         std::stop_token stop)
      : store_(store),
        key_(peer.key),
        until_(until),
        stop_(std::move(stop)),
        stub_(v1::AdminService::NewStub(grpc::CreateChannel(peer.address, credentials))) {}

  absl::Status Send(const SessionRecord& record) {
    v1::AdoptSessionResponse response;
    const absl::Status status = Upload(record, &response);
    if (absl::IsAlreadyExists(status)) return absl::OkStatus();
    if (!status.ok()) return status;
    if (response.persisted_version() < record.persisted_version) return absl::OkStatus();
    if (store_.shares_storage()) {
      store_.Forget(record.id);
      return absl::OkStatus();
    }
    const absl::Status deleted = store_.Delete({.owner = record.owner, .id = record.id});
    if (!deleted.ok()) {
      spdlog::warn("session {} was handed over, but a copy is left: {}", record.id,
                   std::string(deleted.message()));
    }
    return absl::OkStatus();
  }

 private:
  using Writer = grpc::ClientWriter<v1::AdoptSessionRequest>;

  // The session, then its marks.
  absl::Status Upload(const SessionRecord& record, v1::AdoptSessionResponse* response) {
    grpc::ClientContext context;
    context.set_deadline(ToGrpcTime(until_));
    if (!key_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", key_));
    const auto writer = stub_->AdoptSession(&context, response);
    const std::stop_callback interrupt(stop_, [&context] { context.TryCancel(); });
    bool open = true;  // false: the peer takes no more, and says why
    absl::Status status = Write(record.id, "", *writer, &open);
    for (const MarkRecord& mark : record.marks) {
      if (!status.ok() || !open || mark.version == record.version) continue;
      status = Write(record.id, mark.name, *writer, &open);
    }
    if (!status.ok()) {
      context.TryCancel();
      (void)writer->Finish();
      return status;
    }
    writer->WritesDone();
    return ToAbsl(writer->Finish());
  }

  absl::Status Write(const std::string& id, const std::string& mark, Writer& writer, bool* open) {
    const auto stream = store_.ExportPart(id, mark);
    if (!stream.ok()) return stream.status();
    v1::AdoptSessionRequest message;
    message.set_mark(mark);
    while (*open) {
      auto chunk = (*stream)->Next(kSnapshotChunkBytes);
      if (!chunk.ok()) return chunk.status();
      if (chunk->empty()) break;
      message.set_chunk(*std::move(chunk));
      *open = writer.Write(message);
    }
    return absl::OkStatus();
  }

  SessionStore& store_;
  const std::string key_;
  const SteadyTime until_;
  const std::stop_token stop_;
  const std::unique_ptr<v1::AdminService::Stub> stub_;
};

}  // namespace

absl::Status CheckPeer(const PeerOptions& peer) {
  if (peer.key.empty() || peer.tls.enabled() || IsLoopback(peer.address)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "--drain-peer-key: would travel in plain text to ", peer.address,
      ", another machine; give both servers TLS (--ssl-certfile, --ssl-keyfile, --ssl-ca-certs)"));
}

absl::StatusOr<HandOverResult> HandOver(SessionStore& store, const PeerOptions& peer,
                                        SteadyTime until, const std::stop_token& stop) {
  const auto credentials = Credentials(peer);
  if (!credentials.ok()) return credentials.status();
  Sender sender(store, peer, *credentials, until, stop);
  const std::vector<SessionRecord> records = store.HeldHere();
  std::atomic<int64_t> taken = 0;
  std::atomic<bool> hopeless = false;
  {
    TaskPool senders(kSenders);
    for (const SessionRecord& record : records) {
      senders.Schedule([&, record] {
        if (stop.stop_requested() || hopeless || SteadyClock::now() >= until) return;
        const absl::Status status = sender.Send(record);
        if (status.ok()) {
          ++taken;
          return;
        }
        spdlog::warn("session {} was not handed over: {}", record.id, status.ToString());
        if (TakesNothing(status)) hopeless = true;
      });
    }
  }  // runs all of them
  return HandOverResult{.taken = taken, .left = static_cast<int64_t>(records.size()) - taken};
}

}  // namespace tvq
