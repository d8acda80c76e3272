#include "client/cpp/admin.h"

#include "client/cpp/grpc_call.h"
#include "tvq/v1/admin.grpc.pb.h"

namespace tvq::client {
namespace {

class GrpcAdmin final : public Admin {
 public:
  explicit GrpcAdmin(const Transport& transport)
      : transport_(transport), stub_(v1::AdminService::NewStub(transport.channel)) {}

  absl::StatusOr<v1::DrainResponse> Drain(const v1::DrainRequest& request,
                                          const CallOptions& options) override {
    return Unary<v1::DrainResponse>(transport_, options, [&](auto* context, auto* response) {
      return stub_->Drain(context, request, response);
    });
  }

  absl::StatusOr<v1::ReloadCredentialsResponse> ReloadCredentials(
      const CallOptions& options) override {
    return Unary<v1::ReloadCredentialsResponse>(
        transport_, options, [&](auto* context, auto* response) {
          return stub_->ReloadCredentials(context, v1::ReloadCredentialsRequest(), response);
        });
  }

 private:
  const Transport transport_;
  const std::unique_ptr<v1::AdminService::Stub> stub_;
};

}  // namespace

std::unique_ptr<Admin> MakeAdmin(const Transport& transport) {
  return std::make_unique<GrpcAdmin>(transport);
}

}  // namespace tvq::client
