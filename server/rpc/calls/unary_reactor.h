#ifndef TVQ_SERVER_RPC_CALLS_UNARY_REACTOR_H_
#define TVQ_SERVER_RPC_CALLS_UNARY_REACTOR_H_

#include <google/protobuf/message.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/server_callback.h>

#include <memory>

#include "absl/status/status.h"
#include "server/rpc/calls/call_context.h"
#include "server/rpc/calls/call_scope.h"
#include "server/rpc/limits/byte_quota.h"
#include "server/rpc/limits/reader_guard.h"

namespace tvq {

// How fast a client must take a large answer at least, in bytes a second.
inline constexpr int64_t kSlowestReader = int64_t{4} << 20;

// Larger ones are on their way for longer than a server that stops gives its readers.
inline constexpr int64_t kSmallAnswerBytes = int64_t{1} << 20;

// A call with one answer. It counts as open until the client has that, with a large one as at work,
// and a client that does not take it for as long as streams wait, or more slowly than
// kSlowestReader, loses it. Holds itself from Admit until gRPC's OnDone; one thread at a time calls
// what is protected.
class UnaryReactor : public grpc::ServerUnaryReactor,
                     public std::enable_shared_from_this<UnaryReactor> {
 public:
  // `method` is a literal's; gRPC keeps `out` until Finish. A large answer takes room of `answers`.
  UnaryReactor(const CallContext& context, const MethodInfo& method,
               grpc::CallbackServerContext* rpc, grpc::ByteBuffer* out, ByteQuota* answers)
      : context_(context),
        rpc_(rpc),
        out_(out),
        answers_(answers),
        scope_(context, method, rpc),
        reader_(rpc) {}

  void OnDone() override;

 protected:
  // First of all. False: the call has ended.
  bool Admit();
  // Ends an admitted call, not with OK.
  void End(const absl::Status& status);
  // Takes room for an answer of so many bytes, if it may be larger than those that are not counted,
  // until gRPC is done with the call. RESOURCE_EXHAUSTED of ByteQuota.
  absl::Status TakeRoom(int64_t bytes);
  // Ends it with an answer, or with the error of one that is too large, or that there is no room
  // for. Calls that do what cannot be undone take room before they do it, or have small answers.
  void Answer(const google::protobuf::Message& message);

  void OfSession(const std::string& id) { scope_.OfSession(id); }

  const CallContext& context() const { return context_; }
  grpc::CallbackServerContext* rpc() const { return rpc_; }
  // Known once admitted.
  const Caller& caller() const { return scope_.caller(); }

 private:
  const CallContext& context_;
  grpc::CallbackServerContext* const rpc_;
  grpc::ByteBuffer* const out_;
  ByteQuota* const answers_;
  CallScope scope_;
  ReaderGuard reader_;
  ByteQuota::Share answer_;             // of one that counts
  std::shared_ptr<UnaryReactor> self_;  // gRPC's share; reset by its OnDone
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_CALLS_UNARY_REACTOR_H_
