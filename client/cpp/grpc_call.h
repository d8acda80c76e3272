// Not part of the interface: one call over gRPC, and the way from its status to absl's.
#ifndef TVQ_CLIENT_CPP_GRPC_CALL_H_
#define TVQ_CLIENT_CPP_GRPC_CALL_H_

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/call.h"
#include "client/cpp/transport.h"

namespace tvq::client {

// Largest piece of a snapshot in one message.
inline constexpr size_t kChunkBytes = size_t{1} << 20;

// What this side knows of a call that has ended.
struct CallEnd {
  bool cancelled = false;   // by this side
  bool answered = false;    // a message of the response came
  std::string unconnected;  // where the call went if no connection to the server had come about
  // The server had told its clients to go (HTTP/2's GOAWAY), and the call was still on its way over
  // that connection.
  bool closing = false;
};

// How a call ended. Its context must have the response's head, or know that there was none.
//
// CANCELLED means only that this side stopped the call. A server that shuts down also cancels calls
// that reach it while it tells its clients to go (HTTP/2's GOAWAY) and that it has not begun, and a
// proxy calls that it gives up: these become UNAVAILABLE. After the head, a server cancels calls
// whose client takes nothing: they become DEADLINE_EXCEEDED.
absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context,
                      const CallEnd& end = {});

// The session that a request is about; empty: none.
template <typename Request>
std::string SessionId(const Request& request) {
  if constexpr (requires { request.session().session_id(); }) {
    return request.session().session_id();
  } else if constexpr (requires { request.session_id(); }) {
    return request.session_id();
  } else {
    return "";
  }
}

// Of a call that has just ended.
CallEnd EndOf(const Transport& transport, bool cancelled = false, bool answered = false);

// Puts deadline, request id and key into the context of a call, and the id of its session, by which
// a proxy before several servers can choose one.
void Apply(const CallOptions& options, const Transport& transport, grpc::ClientContext* context,
           const std::string& session_id = "");

// `call` makes the call: (context, response) -> grpc::Status.
template <typename Response, typename Call>
absl::StatusOr<Response> Unary(const Transport& transport, const CallOptions& options,
                               const Call& call, const std::string& session_id = "") {
  grpc::ClientContext context;
  Apply(options, transport, &context, session_id);
  Response response;
  const grpc::Status status = call(&context, &response);
  if (!status.ok()) return FromGrpc(status, context, EndOf(transport));
  return response;
}

// A stream of a grpc::ClientReader or ClientReaderWriter.
template <typename Message, typename Reader>
class GrpcStream : public Stream<Message> {
 public:
  // `start` makes the reader of a call with this context.
  template <typename Start>
  GrpcStream(const Transport& transport, const CallOptions& options, const Start& start,
             const std::string& session_id = "")
      : transport_(transport) {
    Apply(options, transport, &context_, session_id);
    reader_ = start(&context_);
  }
  ~GrpcStream() override {
    if (finished_) return;
    context_.TryCancel();
    Message ignored;
    while (reader_->Read(&ignored)) {
    }
    reader_->Finish();
  }

  bool Next(Message* message) override {
    const bool is_message = reader_->Read(message);
    answered_ = answered_ || is_message;
    return is_message;
  }
  absl::Status Finish() override {
    finished_ = true;
    const grpc::Status status = reader_->Finish();
    return FromGrpc(status, context_, EndOf(transport_, cancelled_, answered_));
  }
  void Cancel() override {
    cancelled_ = true;
    context_.TryCancel();
  }

 protected:
  Reader& reader() { return *reader_; }

 private:
  const Transport transport_;
  grpc::ClientContext context_;
  std::unique_ptr<Reader> reader_;
  std::atomic<bool> cancelled_ = false;
  bool answered_ = false;
  bool finished_ = false;
};

template <typename Message>
using ServerStream = GrpcStream<Message, grpc::ClientReader<Message>>;

// Writes all that `source` gives into the `chunk` of messages, then closes this side of the call.
// OK also when the call ended first: its status then tells why.
template <typename Request, typename Writer>
absl::Status SendChunks(const ChunkSource& source, Writer* writer) {
  while (true) {
    const absl::StatusOr<std::string> piece = source();
    if (!piece.ok()) return piece.status();
    if (piece->empty()) break;
    for (size_t begin = 0; begin < piece->size(); begin += kChunkBytes) {
      Request request;
      request.set_chunk(piece->substr(begin, kChunkBytes));
      if (!writer->Write(request)) return absl::OkStatus();
    }
  }
  writer->WritesDone();
  return absl::OkStatus();
}

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_GRPC_CALL_H_
