#include "client/loadtest/grpc_target.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/client.h"
#include "client/cpp/transport.h"
#include "client/loadtest/grpc_transport.h"

namespace tvq::loadtest {
namespace {

constexpr absl::Duration kSetUpTimeout = absl::Seconds(30);

class GrpcTarget final : public Target {
 public:
  GrpcTarget(std::string address, std::unique_ptr<client::Client> client,
             std::vector<client::Transport> connections)
      : address_(std::move(address)),
        client_(std::move(client)),
        connections_(std::move(connections)) {}

  absl::StatusOr<ModelInfo> GetModel(const std::string& name) override {
    const auto model = client_->GetModel(name, {.timeout = kSetUpTimeout});
    if (!model.ok()) return Named(model.status());
    const auto server = client_->GetServerInfo({.timeout = kSetUpTimeout});
    if (!server.ok()) return Named(server.status());
    ModelInfo info{
        .name = model->name(),
        .vocab_size = model->vocab_size(),
        .max_prompt_tokens = model->max_prompt_tokens(),
        .server = absl::StrCat("tvq-server ", server->version(), ", ", server->device())};
    if (model->has_pad_token_id()) info.special_ids.push_back(model->pad_token_id());
    if (model->has_bos_token_id()) info.special_ids.push_back(model->bos_token_id());
    if (model->has_eos_token_id()) info.special_ids.push_back(model->eos_token_id());
    if (model->has_unk_token_id()) info.special_ids.push_back(model->unk_token_id());
    return info;
  }

  absl::StatusOr<std::vector<int32_t>> Tokenize(const std::string& model,
                                                const std::string& text) override {
    v1::TokenizeRequest request;
    request.set_model(model);
    request.set_text(text);
    request.set_add_special_tokens(false);  // pieces are cut anywhere
    const auto response = client_->Tokenize(request, {.timeout = kSetUpTimeout});
    if (!response.ok()) return Named(response.status());
    return std::vector<int32_t>(response->token_ids().begin(), response->token_ids().end());
  }

  std::unique_ptr<Transport> Open(const RequestSettings& settings) override {
    return MakeGrpcTransport(connections_, settings);
  }

  std::string Description() const override { return "gRPC " + address_; }

 private:
  absl::Status Named(const absl::Status& status) const {
    return {status.code(), absl::StrCat(address_, ": ", status.message())};
  }

  const std::string address_;
  const std::unique_ptr<client::Client> client_;
  const std::vector<client::Transport> connections_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> OpenGrpcTarget(const client::ConnectOptions& given,
                                                       int connections) {
  const auto options = client::Checked(given);
  if (!options.ok()) return options.status();
  auto client = client::Client::Connect(*options);
  if (!client.ok()) return client.status();
  auto transport = client::Open(*options);
  auto credentials = client::Credentials(*options);
  if (!transport.ok()) return transport.status();
  if (!credentials.ok()) return credentials.status();
  std::vector<client::Transport> transports;
  for (int i = 0; i < connections; ++i) {
    grpc::ChannelArguments arguments;
    // Channels of equal arguments would share one connection.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    transport->channel = client::NewChannel(*options, *credentials, arguments);
    transports.push_back(*transport);
  }
  return std::make_unique<GrpcTarget>(options->address, std::move(*client), std::move(transports));
}

}  // namespace tvq::loadtest
