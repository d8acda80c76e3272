#ifndef TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_
#define TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_

#include <memory>
#include <string>

#include "server/rpc/calls/snapshots/upload_call.h"
#include "server/rpc/wire/request_hash.h"

namespace tvq {

// One ImportSession call.
class ImportCall : public UploadCall {
 public:
  ImportCall(const CallContext& context, grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out);

 protected:
  absl::StatusOr<std::string> Read(const grpc::ByteBuffer& bytes, bool first) override;
  absl::StatusOr<grpc::ByteBuffer> Complete(std::unique_ptr<SnapshotUpload> upload) override;

 private:
  CreateOptions options_;  // of the first message
  RequestHash hash_;       // of what came so far
};

// One AdoptSession call of a server that drains. The session is stored here, if possible, before
// the answer: the other server then forgets it, and what was acknowledged as saved stays saved.
class AdoptCall : public UploadCall {
 public:
  AdoptCall(const CallContext& context, grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out);

 protected:
  absl::StatusOr<std::string> Read(const grpc::ByteBuffer& bytes, bool first) override;
  absl::StatusOr<grpc::ByteBuffer> Complete(std::unique_ptr<SnapshotUpload> upload) override;

 private:
  std::unique_ptr<Adoption> adoption_;
  std::string mark_;  // whose snapshot is coming; empty: the session's
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_
