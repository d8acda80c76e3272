#include "client/cpp/client.h"

#include <utility>

#include "client/cpp/grpc_call.h"
#include "client/cpp/transport.h"
#include "tvq/v1/generation.grpc.pb.h"
#include "tvq/v1/model.grpc.pb.h"

namespace tvq::client {
namespace {

using StateReaderWriter =
    grpc::ClientReaderWriter<v1::GenerateWithStateRequest, v1::GenerateWithStateResponse>;

// Sends before it reads: the server answers only when it has the whole state, or refuses it.
class StateStream final : public GrpcStream<v1::GenerateWithStateResponse, StateReaderWriter> {
 public:
  template <typename Start>
  StateStream(const Transport& transport, const CallOptions& options, const Start& start,
              const v1::GenerateRequest& request, ChunkSource state)
      : GrpcStream(transport, options, start), state_(std::move(state)) {
    *first_.mutable_generate() = request;
  }

  bool Next(v1::GenerateWithStateResponse* message) override {
    if (!std::exchange(sent_, true)) Send();
    return GrpcStream::Next(message);
  }

  absl::Status Finish() override {
    const absl::Status status = GrpcStream::Finish();
    return source_status_.ok() ? status : source_status_;
  }

 private:
  void Send() {
    if (!reader().Write(first_)) return;
    source_status_ = SendChunks<v1::GenerateWithStateRequest>(state_, &reader());
    if (!source_status_.ok()) Cancel();
  }

  v1::GenerateWithStateRequest first_;
  const ChunkSource state_;
  absl::Status source_status_;
  bool sent_ = false;
};

class GrpcClient final : public Client {
 public:
  explicit GrpcClient(const Transport& transport)
      : transport_(transport),
        generation_(v1::GenerationService::NewStub(transport.channel)),
        models_(v1::ModelService::NewStub(transport.channel)),
        sessions_(MakeSessions(transport)),
        admin_(MakeAdmin(transport)) {}

  Sessions& sessions() override { return *sessions_; }
  Admin& admin() override { return *admin_; }

  std::unique_ptr<GenerateStream> Generate(const v1::GenerateRequest& request,
                                           const CallOptions& options) override {
    return std::make_unique<ServerStream<v1::GenerateResponse>>(
        transport_, options, [&](auto* context) { return generation_->Generate(context, request); },
        SessionId(request));
  }

  std::unique_ptr<GenerateWithStateStream> GenerateWithState(const v1::GenerateRequest& request,
                                                             ChunkSource state,
                                                             const CallOptions& options) override {
    const auto start = [&](auto* context) { return generation_->GenerateWithState(context); };
    return std::make_unique<StateStream>(transport_, options, start, request, std::move(state));
  }

  std::unique_ptr<ScoreStream> Score(const v1::ScoreRequest& request,
                                     const CallOptions& options) override {
    return std::make_unique<ServerStream<v1::ScoreResponse>>(
        transport_, options, [&](auto* context) { return generation_->Score(context, request); },
        SessionId(request));
  }

  absl::StatusOr<v1::EncodeResponse> Encode(const v1::EncodeRequest& request,
                                            const CallOptions& options) override {
    return Unary<v1::EncodeResponse>(transport_, options, [&](auto* context, auto* response) {
      return generation_->Encode(context, request, response);
    });
  }

  absl::StatusOr<v1::TokenizeResponse> Tokenize(const v1::TokenizeRequest& request,
                                                const CallOptions& options) override {
    return Unary<v1::TokenizeResponse>(transport_, options, [&](auto* context, auto* response) {
      return generation_->Tokenize(context, request, response);
    });
  }

  absl::StatusOr<v1::DetokenizeResponse> Detokenize(const v1::DetokenizeRequest& request,
                                                    const CallOptions& options) override {
    return Unary<v1::DetokenizeResponse>(transport_, options, [&](auto* context, auto* response) {
      return generation_->Detokenize(context, request, response);
    });
  }

  absl::StatusOr<v1::ListModelsResponse> ListModels(const CallOptions& options) override {
    return Unary<v1::ListModelsResponse>(transport_, options, [&](auto* context, auto* response) {
      return models_->ListModels(context, v1::ListModelsRequest(), response);
    });
  }

  absl::StatusOr<v1::Model> GetModel(const std::string& name, const CallOptions& options) override {
    v1::GetModelRequest request;
    request.set_name(name);
    auto response =
        Unary<v1::GetModelResponse>(transport_, options, [&](auto* context, auto* response) {
          return models_->GetModel(context, request, response);
        });
    if (!response.ok()) return response.status();
    return std::move(*response->mutable_model());
  }

  absl::StatusOr<v1::GetServerInfoResponse> GetServerInfo(const CallOptions& options) override {
    return Unary<v1::GetServerInfoResponse>(
        transport_, options, [&](auto* context, auto* response) {
          return models_->GetServerInfo(context, v1::GetServerInfoRequest(), response);
        });
  }

 private:
  const Transport transport_;
  const std::unique_ptr<v1::GenerationService::Stub> generation_;
  const std::unique_ptr<v1::ModelService::Stub> models_;
  const std::unique_ptr<Sessions> sessions_;
  const std::unique_ptr<Admin> admin_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& address) {
  ConnectOptions options;
  options.address = address;
  return Connect(options);
}

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const ConnectOptions& options) {
  const absl::StatusOr<Transport> transport = Open(options);
  if (!transport.ok()) return transport.status();
  return std::make_unique<GrpcClient>(*transport);
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
