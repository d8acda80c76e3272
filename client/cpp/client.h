// The C++ client of a tvq server. Requests and replies are the messages of proto/tvq/v1, whose
// comments are the reference; gRPC itself does not show.
//
//   absl::StatusOr<std::unique_ptr<tvq::client::Client>> client =
//       tvq::client::Client::Connect("127.0.0.1:50051");
//   if (!client.ok()) return client.status();
//   tvq::v1::GenerateRequest request;
//   request.set_text("Once upon a time");
//   auto stream = (*client)->Generate(request);
//   tvq::v1::GenerateResponse response;
//   while (stream->Next(&response)) { ... }
//   absl::Status status = stream->Finish();
#ifndef TVQ_CLIENT_CPP_CLIENT_H_
#define TVQ_CLIENT_CPP_CLIENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/cpp/admin.h"
#include "client/cpp/call.h"
#include "client/cpp/connect.h"
#include "client/cpp/sessions.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"

namespace tvq::client {

using GenerateStream = Stream<v1::GenerateResponse>;
using ScoreStream = Stream<v1::ScoreResponse>;
using GenerateWithStateStream = Stream<v1::GenerateWithStateResponse>;

// Thread-safe. Every call may answer UNAVAILABLE when the server cannot be reached or shuts down;
// the next call tries again.
class Client {
 public:
  // `address` is HOST:PORT; INVALID_ARGUMENT for what is none. Connects with the first call.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const std::string& address);
  // The same with a key or TLS. INVALID_ARGUMENT also for options that do not fit together,
  // NOT_FOUND for a file that cannot be read; the server's opinion of them comes with the first
  // call.
  static absl::StatusOr<std::unique_ptr<Client>> Connect(const ConnectOptions& options);
  virtual ~Client() = default;

  // They live as long as the client.
  virtual Sessions& sessions() = 0;
  virtual Admin& admin() = 0;

  virtual std::unique_ptr<GenerateStream> Generate(const v1::GenerateRequest& request,
                                                   const CallOptions& options = {}) = 0;
  // Generate on a state that the client keeps: the first Next sends the request and all that
  // `state` gives (nothing: an empty context), then come the output and the state after it.
  virtual std::unique_ptr<GenerateWithStateStream> GenerateWithState(
      const v1::GenerateRequest& request, ChunkSource state, const CallOptions& options = {}) = 0;
  virtual std::unique_ptr<ScoreStream> Score(const v1::ScoreRequest& request,
                                             const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::EncodeResponse> Encode(const v1::EncodeRequest& request,
                                                    const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                        const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                            const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options = {}) = 0;
  // An empty name stands for the server's first model.
  virtual absl::StatusOr<v1::Model> GetModel(const std::string& name,
                                             const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(
      const CallOptions& options = {}) = 0;

  // Generate with a function for each message. When it returns false the call is cancelled, and
  // the result is CANCELLED.
  absl::Status Generate(const v1::GenerateRequest& request, const CallOptions& options,
                        const std::function<bool(const v1::GenerateResponse&)>& on_message);
};

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_CLIENT_H_
