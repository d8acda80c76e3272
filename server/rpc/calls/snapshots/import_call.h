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

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_SNAPSHOTS_IMPORT_CALL_H_
