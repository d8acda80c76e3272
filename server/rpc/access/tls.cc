#include "server/rpc/access/tls.h"

#include <grpcpp/security/tls_credentials_options.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

constexpr std::chrono::seconds kLook{1};  // at the files
constexpr unsigned kRefreshSeconds = 1;   // gRPC's, at the copies

template <auto Free>
struct Freer {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
using Bio = std::unique_ptr<BIO, Freer<BIO_free_all>>;
using Certificate = std::unique_ptr<X509, Freer<X509_free>>;
using PrivateKey = std::unique_ptr<EVP_PKEY, Freer<EVP_PKEY_free>>;

Bio Open(const std::string& text) {
  return Bio(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

absl::StatusOr<std::vector<Certificate>> ReadCertificates(const std::string& file,
                                                          const std::string& text) {
  std::vector<Certificate> certificates;
  const Bio bio = Open(text);
  ERR_clear_error();
  while (Certificate next{PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr)}) {
    certificates.push_back(std::move(next));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (at_end && !certificates.empty()) return certificates;
  return absl::InvalidArgumentError(
      absl::StrCat("certificate file ", file, ": ",
                   at_end ? "holds no certificate"
                          : absl::StrCat("certificate ", certificates.size() + 1, " is damaged"),
                   "; must be certificates in PEM"));
}

absl::StatusOr<PrivateKey> ReadKey(const std::string& file, const std::string& text) {
  const auto no_password = [](char*, int, int, void*) { return -1; };
  PrivateKey key(PEM_read_bio_PrivateKey(Open(text).get(), nullptr, no_password, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(
      absl::StrCat("key file ", file, ": must be a private key in PEM, not encrypted"));
}

}  // namespace

absl::StatusOr<TlsTexts> ReadTlsFiles(const TlsOptions& options, Pipes pipes) {
  auto certificates = ReadNamedFile("certificate file", options.certificate_file, pipes);
  if (!certificates.ok()) return certificates.status();
  auto key_text = ReadNamedFile("key file", options.key_file, pipes);
  if (!key_text.ok()) return key_text.status();
  const auto chain = ReadCertificates(options.certificate_file, *certificates);
  if (!chain.ok()) return chain.status();
  const auto key = ReadKey(options.key_file, *key_text);
  if (!key.ok()) return key.status();
  if (X509_check_private_key(chain->front().get(), key->get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat("key file ", options.key_file,
                                                   ": is not the key of the first certificate in ",
                                                   options.certificate_file));
  }
  TlsTexts texts{.certificates = *std::move(certificates), .key = *std::move(key_text)};
  if (options.ca_file.empty()) return texts;
  auto ca = ReadNamedFile("certificate file", options.ca_file, pipes);
  if (!ca.ok()) return ca.status();
  if (const auto known = ReadCertificates(options.ca_file, *ca); !known.ok()) return known.status();
  texts.ca = *std::move(ca);
  return texts;
}

absl::StatusOr<std::unique_ptr<Tls>> Tls::Create(const TlsOptions& options) {
  std::unique_ptr<Tls> tls(new Tls(options));
  if (const auto loaded = tls->Reload(); !loaded.ok()) return loaded.status();
  {
    const MutexLock lock(&tls->mutex_);
    tls->provider_ = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
        tls->identity_.path(), tls->identity_.path(), tls->ca_.path(), kRefreshSeconds);
  }
  tls->watcher_.emplace(kLook, [tls = tls.get()] { tls->Look(); });
  return tls;
}

std::shared_ptr<grpc::ServerCredentials> Tls::Credentials() const {
  grpc::experimental::TlsServerCredentialsOptions options(provider_);
  options.watch_identity_key_cert_pairs();
  if (!options_.ca_file.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

absl::StatusOr<bool> Tls::Reload() {
  const MutexLock lock(&mutex_);
  if (const auto refreshed = Refresh(); !refreshed.ok()) return refreshed.status();
  return std::exchange(changed_, false);
}

// One thread at a time, so that older contents of the files never replace newer ones.
absl::StatusOr<bool> Tls::Refresh() {
  const bool is_first = shown_.certificates.empty();
  absl::StatusOr<TlsTexts> texts =
      ReadTlsFiles(options_, is_first ? Pipes::kWait : Pipes::kDoNotWait);
  if (!texts.ok()) return texts.status();
  if (*texts == shown_) return false;
  if (auto status = Show(*texts); !status.ok()) return status;
  shown_ = *std::move(texts);
  changed_ = true;
  return true;
}

absl::Status Tls::Show(const TlsTexts& texts) {
  if (!texts.ca.empty()) {
    if (auto status = ca_.Replace(texts.ca); !status.ok()) return status;
  }
  return identity_.Replace(absl::StrCat(texts.key, "\n", texts.certificates));
}

void Tls::Look() {
  absl::StatusOr<bool> changed;
  {
    const MutexLock lock(&mutex_);
    changed = Refresh();
  }
  const std::string problem(changed.status().message());
  if (!problem.empty() && problem != last_problem_) {
    spdlog::warn("the certificates in use stay: {}", problem);
  }
  if (changed.ok() && *changed) spdlog::info("new certificates are in use");
  last_problem_ = problem;
}

}  // namespace tvq
