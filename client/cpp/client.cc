#include "client/cpp/client.h"

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"

namespace tvq::client {
namespace {

constexpr char kPushback[] = "grpc-retry-pushback-ms";

absl::Status FromGrpc(const grpc::Status& status, const grpc::ClientContext& context) {
  if (status.ok()) return absl::OkStatus();
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  const auto& trailers = context.GetServerTrailingMetadata();
  if (const auto it = trailers.find(kPushback); it != trailers.end()) {
    result.SetPayload(kPushback, absl::Cord(std::string(it->second.data(), it->second.size())));
  }
  return result;
}

void Apply(const CallOptions& options, grpc::ClientContext* context) {
  if (options.timeout != absl::InfiniteDuration()) {
    context->set_deadline(std::chrono::system_clock::now() +
                          absl::ToChronoMicroseconds(options.timeout));
  }
  if (!options.request_id.empty()) context->AddMetadata("x-request-id", options.request_id);
}

template <typename Message>
class GrpcStream final : public Stream<Message> {
 public:
  // `start` makes the reader of a call with this context.
  template <typename Start>
  GrpcStream(const CallOptions& options, const Start& start) {
    Apply(options, &context_);
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

  bool Next(Message* message) override { return reader_->Read(message); }
  absl::Status Finish() override {
    finished_ = true;
    const grpc::Status status = reader_->Finish();
    return FromGrpc(status, context_);
  }
  void Cancel() override { context_.TryCancel(); }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<Message>> reader_;
  bool finished_ = false;
};

class GrpcClient final : public Client {
 public:
  explicit GrpcClient(const std::shared_ptr<grpc::Channel>& channel)
      : generation_(v1::GenerationService::NewStub(channel)),
        models_(v1::ModelService::NewStub(channel)) {}

  std::unique_ptr<GenerateStream> Generate(const v1::GenerateRequest& request,
                                           const CallOptions& options) override {
    return std::make_unique<GrpcStream<v1::GenerateResponse>>(
        options, [&](auto* context) { return generation_->Generate(context, request); });
  }

  std::unique_ptr<ScoreStream> Score(const v1::ScoreRequest& request,
                                     const CallOptions& options) override {
    return std::make_unique<GrpcStream<v1::ScoreResponse>>(
        options, [&](auto* context) { return generation_->Score(context, request); });
  }

  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const CallOptions& options) override {
    return Unary<v1::TokenizeResponse>(options, [&](auto* context, auto* response) {
      return generation_->Tokenize(context, request, response);
    });
  }

  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    const CallOptions& options) override {
    return Unary<v1::DetokenizeResponse>(options, [&](auto* context, auto* response) {
      return generation_->Detokenize(context, request, response);
    });
  }

  absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options) override {
    return Unary<v1::ListModelsResponse>(options, [&](auto* context, auto* response) {
      return models_->ListModels(context, v1::ListModelsRequest(), response);
    });
  }

  absl::StatusOr<v1::Model> GetModel(const std::string& name, const CallOptions& options) override {
    v1::GetModelRequest request;
    request.set_name(name);
    auto response = Unary<v1::GetModelResponse>(options, [&](auto* context, auto* response) {
      return models_->GetModel(context, request, response);
    });
    if (!response.ok()) return response.status();
    return std::move(*response->mutable_model());
  }

  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& options) override {
    return Unary<v1::GetServerInfoResponse>(options, [&](auto* context, auto* response) {
      return models_->GetServerInfo(context, v1::GetServerInfoRequest(), response);
    });
  }

 private:
  template <typename Response, typename Call>
  static absl::StatusOr<Response> Unary(const CallOptions& options, const Call& call) {
    grpc::ClientContext context;
    Apply(options, &context);
    Response response;
    const grpc::Status status = call(&context, &response);
    if (!status.ok()) return FromGrpc(status, context);
    return response;
  }

  std::unique_ptr<v1::GenerationService::Stub> generation_;
  std::unique_ptr<v1::ModelService::Stub> models_;
};

}  // namespace

std::optional<absl::Duration> RetryAfter(const absl::Status& status) {
  const auto payload = status.GetPayload(kPushback);
  int64_t ms = 0;
  if (!payload || !absl::SimpleAtoi(std::string(*payload), &ms) || ms < 0) return std::nullopt;
  return absl::Milliseconds(ms);
}

std::unique_ptr<Client> Client::Connect(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  return std::make_unique<GrpcClient>(
      grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
}

absl::Status Client::Generate(const v1::GenerateRequest& request, const CallOptions& options,
                              const std::function<bool(const v1::GenerateResponse&)>& on_message) {
  const std::unique_ptr<GenerateStream> stream = Generate(request, options);
  v1::GenerateResponse response;
  while (stream->Next(&response)) {
    if (!on_message(response)) stream->Cancel();
  }
  return stream->Finish();
}

}  // namespace tvq::client
