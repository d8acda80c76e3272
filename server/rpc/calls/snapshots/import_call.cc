#include "server/rpc/calls/snapshots/import_call.h"

#include <utility>

#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/rpc/wire/wire.h"
#include "tvq/v1/session.pb.h"

namespace tvq {
namespace {

constexpr MethodInfo kImport{"SessionService/ImportSession", Permission::kSessions};

}  // namespace

ImportCall::ImportCall(const CallContext& context, grpc::CallbackServerContext* rpc,
                       grpc::ByteBuffer* out)
    : UploadCall(context, kImport, rpc, out) {}

absl::StatusOr<std::string> ImportCall::Read(const grpc::ByteBuffer& bytes, bool first) {
  v1::ImportSessionRequest message;
  if (auto status = ParseMessage(bytes, &message); !status.ok()) return status;
  if (message.has_create() != first) {
    return absl::InvalidArgumentError(first ? "create: is not set, must be in the first message"
                                            : "create: is set, may be in the first message alone");
  }
  if (first) {
    auto options = ToCreateOptions(message.create());
    if (!options.ok()) return options.status();
    options_ = *std::move(options);
    hash_ = HashOfCreation(message.create());
    if (!options_.model.empty()) {
      const auto model = FindModel(context().engine->models(), options_.model);
      if (!model.ok()) return model.status();
    }
  }
  hash_.Add(std::string_view(message.chunk()));
  return std::move(*message.mutable_chunk());
}

absl::StatusOr<grpc::ByteBuffer> ImportCall::Complete(std::unique_ptr<SnapshotUpload> upload) {
  options_.request_hash = hash_.value();
  const auto view = context().sessions->Import(caller().owner, options_, std::move(upload));
  if (!view.ok()) return view.status();
  v1::ImportSessionResponse response;
  ToProto(*view, response.mutable_session());
  return SerializeMessage(response);
}

}  // namespace tvq
