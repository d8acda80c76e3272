#include "client/cpp/transport.h"

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_certificate_verifier.h>
#include <grpcpp/security/tls_credentials_options.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/read_file.h"
#include "client/cpp/pem.h"
#include "client/cpp/unverified_credentials.h"

namespace tvq::client {
namespace {

// How often the address of a server that is away is looked up: one that was started again may have
// another.
constexpr int kResolveMs = 1000;

// `is_right` looks at what the file holds, of which `must` tells.
absl::Status ReadPem(const std::string& what, const std::string& path, std::string_view must,
                     bool (*is_right)(const std::string&), std::string* content) {
  if (path.empty()) return absl::OkStatus();
  auto read = ReadNamedFile(what, path, Pipes::kWaitIfWritten);
  if (!read.ok()) return read.status();
  *content = *std::move(read);
  if (is_right(*content)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " ", path, ": must be ", std::string(must), " in PEM"));
}

// gRPC ends the process over a header that is anything else.
bool FitsHeader(std::string_view value) {
  return std::all_of(value.begin(), value.end(), [](char c) { return c > ' ' && c <= '~'; });
}

bool WantsTls(const ConnectOptions& options) {
  return options.tls || !options.ca_file.empty() || !options.cert_file.empty();
}

absl::StatusOr<grpc::SslCredentialsOptions> ReadFiles(const ConnectOptions& options) {
  if (options.cert_file.empty() != options.key_file.empty()) {
    return absl::InvalidArgumentError("the client's certificate and its key belong together");
  }
  grpc::SslCredentialsOptions ssl;
  absl::Status status = ReadPem("CA certificates", options.ca_file, "certificates", AreCertificates,
                                &ssl.pem_root_certs);
  status.Update(ReadPem("client certificate", options.cert_file, "certificates", AreCertificates,
                        &ssl.pem_cert_chain));
  status.Update(ReadPem("client key", options.key_file, "a private key, not encrypted,",
                        IsPrivateKey, &ssl.pem_private_key));
  if (!status.ok()) return status;
  return ssl;
}

// Believes every certificate, and tells that there was one.
class BelievingVerifier final : public grpc::experimental::ExternalCertificateVerifier {
 public:
  explicit BelievingVerifier(std::shared_ptr<std::atomic<bool>> seen) : seen_(std::move(seen)) {}

  bool Verify(grpc::experimental::TlsCustomVerificationCheckRequest*,
              std::function<void(grpc::Status)>, grpc::Status* status) override {
    *seen_ = true;
    *status = grpc::Status::OK;
    return true;
  }
  void Cancel(grpc::experimental::TlsCustomVerificationCheckRequest*) override {}

 private:
  const std::shared_ptr<std::atomic<bool>> seen_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> Credentials(
    const ConnectOptions& options) {
  const auto ssl = ReadFiles(options);
  if (!ssl.ok()) return ssl.status();
  return WantsTls(options) ? grpc::SslCredentials(*ssl) : grpc::InsecureChannelCredentials();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> UnverifiedCredentials(
    const ConnectOptions& options, std::shared_ptr<std::atomic<bool>> seen) {
  namespace tls = grpc::experimental;
  const auto ssl = ReadFiles(options);
  if (!ssl.ok()) return ssl.status();
  if (!WantsTls(options)) return grpc::InsecureChannelCredentials();
  tls::TlsChannelCredentialsOptions unverified;
  unverified.set_verify_server_certs(false);
  unverified.set_check_call_host(false);
  unverified.set_certificate_verifier(
      tls::ExternalCertificateVerifier::Create<BelievingVerifier>(std::move(seen)));
  std::vector<tls::IdentityKeyCertPair> own;
  if (!ssl->pem_cert_chain.empty()) own.push_back({ssl->pem_private_key, ssl->pem_cert_chain});
  // Without any gRPC looks for the system's, and complains in an image that has none.
  const std::string& roots =
      ssl->pem_root_certs.empty() ? ssl->pem_cert_chain : ssl->pem_root_certs;
  if (!roots.empty()) {
    unverified.set_certificate_provider(
        std::make_shared<tls::StaticDataCertificateProvider>(roots, own));
    unverified.watch_root_certs();
  }
  if (!own.empty()) unverified.watch_identity_key_cert_pairs();
  return tls::TlsCredentials(unverified);
}

absl::StatusOr<ConnectOptions> Checked(ConnectOptions options) {
  const auto server = ParseServerAddress(options.address, kDefaultPort);
  if (!server.ok()) return server.status();
  options.address = server->address;
  options.tls = options.tls || server->tls;
  return options;
}

std::shared_ptr<grpc::Channel> NewChannel(
    const ConnectOptions& checked, const std::shared_ptr<grpc::ChannelCredentials>& credentials,
    grpc::ChannelArguments arguments) {
  if (IsLoopback(checked.address)) arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  return grpc::CreateCustomChannel(checked.address, credentials, arguments);
}

absl::StatusOr<Transport> Open(const ConnectOptions& given) {
  const auto checked = Checked(given);
  if (!checked.ok()) return checked.status();
  const ConnectOptions& options = *checked;
  if (!FitsHeader(options.api_key)) {
    return absl::InvalidArgumentError("api_key: must be printable ASCII without spaces");
  }
  auto credentials = Credentials(options);
  if (!credentials.ok()) return credentials.status();
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kResolveMs);
  Transport transport;
  transport.address = options.address;
  transport.channel = NewChannel(options, *credentials, arguments);
  if (!options.api_key.empty()) transport.authorization = "Bearer " + options.api_key;
  return transport;
}

}  // namespace tvq::client
