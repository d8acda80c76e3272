#include "server/rpc/hand_over.h"

#include <grpcpp/grpcpp.h>
#include <spdlog/spdlog.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/rpc/session_convert.h"
#include "server/rpc/task_pool.h"
#include "tvq/v1/admin.grpc.pb.h"

namespace tvq {
namespace {

// Sessions on their way at once: enough to hide the network's latency.
constexpr int kSenders = 4;

absl::Status ToAbsl(const grpc::Status& status) {
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(const TlsOptions& tls) {
  if (!tls.enabled()) return grpc::InsecureChannelCredentials();
  const auto texts = ReadTlsFiles(tls);
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
         const std::shared_ptr<grpc::ChannelCredentials>& credentials, absl::Time until)
      : store_(store),
        key_(peer.key),
        until_(until),
        stub_(v1::AdminService::NewStub(grpc::CreateChannel(peer.address, credentials))) {}

  absl::Status Send(const SessionRecord& record) {
    v1::AdoptSessionResponse response;
    const absl::Status status = Upload(record, &response);
    if (absl::IsAlreadyExists(status)) return absl::OkStatus();
    if (!status.ok()) return status;
    if (record.persisted_version > 0 && response.persisted_version() < record.version) {
      return absl::OkStatus();
    }
    // Where both share a durable tier, what is there is the peer's now, and stays.
    const absl::Status deleted = store_.Delete({.owner = record.owner, .id = record.id});
    if (!deleted.ok() && !absl::IsAborted(deleted)) {
      spdlog::warn("session {} was handed over, but a copy is left: {}", record.id,
                   std::string(deleted.message()));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Upload(const SessionRecord& record, v1::AdoptSessionResponse* response) {
    auto stream = store_.Export({.owner = record.owner, .id = record.id});
    if (!stream.ok()) return stream.status();
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(until_));
    if (!key_.empty()) context.AddMetadata("authorization", absl::StrCat("Bearer ", key_));
    const auto writer = stub_->AdoptSession(&context, response);
    while (true) {
      auto chunk = (*stream)->Next(kSnapshotChunkBytes);
      if (!chunk.ok()) {
        context.TryCancel();
        (void)writer->Finish();
        return chunk.status();
      }
      if (chunk->empty()) break;
      v1::AdoptSessionRequest message;
      message.set_chunk(*std::move(chunk));
      if (!writer->Write(message)) return ToAbsl(writer->Finish());
    }
    writer->WritesDone();
    return ToAbsl(writer->Finish());
  }

  SessionStore& store_;
  const std::string key_;
  const absl::Time until_;
  const std::unique_ptr<v1::AdminService::Stub> stub_;
};

}  // namespace

absl::StatusOr<HandOverResult> HandOver(SessionStore& store, const PeerOptions& peer,
                                        absl::Time until, const std::atomic<bool>& stop) {
  const auto credentials = Credentials(peer.tls);
  if (!credentials.ok()) return credentials.status();
  Sender sender(store, peer, *credentials, until);
  const std::vector<SessionRecord> records = store.Records();
  std::atomic<int64_t> taken = 0;
  std::atomic<bool> hopeless = false;
  {
    TaskPool senders(kSenders);
    for (const SessionRecord& record : records) {
      senders.Schedule([&, record] {
        if (stop || hopeless || absl::Now() >= until) return;
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
