// The C++ client of a tvq server. Requests and replies are the messages of proto/tvq/v1, whose
// comments are the reference; gRPC itself does not show.
//
//   auto client = tvq::client::Client::Connect("127.0.0.1:50051");
//   tvq::v1::GenerateRequest request;
//   request.set_text("Once upon a time");
//   auto stream = client->Generate(request);
//   tvq::v1::GenerateResponse response;
//   while (stream->Next(&response)) { ... }
//   absl::Status status = stream->Finish();
#ifndef TVQ_CLIENT_CPP_CLIENT_H_
#define TVQ_CLIENT_CPP_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tvq/v1/generation.pb.h"
#include "tvq/v1/model.pb.h"

namespace tvq::client {

struct CallOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  std::string request_id;  // names the call in the server's logs; empty: the server makes one
};

// How long the server asks to wait before trying again; nothing if it did not say, or said never.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// The messages of one call, in order. Destroying it before the end cancels the call.
template <typename Message>
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for the next message; false when there is none any more.
  virtual bool Next(Message* message) = 0;
  // After Next was false: how the call ended. DEADLINE_EXCEEDED and CANCELLED are errors.
  virtual absl::Status Finish() = 0;
  // Ends the call soon, and Next with it. Any thread.
  virtual void Cancel() = 0;
};

using GenerateStream = Stream<v1::GenerateResponse>;
using ScoreStream = Stream<v1::ScoreResponse>;

// Thread-safe. Every call may answer UNAVAILABLE when the server cannot be reached; the next call
// tries again.
class Client {
 public:
  // `address` is HOST:PORT. Connects with the first call.
  static std::unique_ptr<Client> Connect(const std::string& address);
  virtual ~Client() = default;

  virtual std::unique_ptr<GenerateStream> Generate(const v1::GenerateRequest& request,
                                                   const CallOptions& options = {}) = 0;
  virtual std::unique_ptr<ScoreStream> Score(const v1::ScoreRequest& request,
                                             const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                        const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                            const CallOptions& options = {}) = 0;
  virtual absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options = {}) = 0;
  // An empty name stands for the server's only model.
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
