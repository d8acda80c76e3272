#include "client/gateway/http/tls_files.h"

#include <openssl/ssl.h>

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/read_file.h"

namespace tvq::gateway {
namespace {

constexpr std::chrono::seconds kLook{1};

// Of the protocols a client offers, HTTP/1.1 is spoken.
int ChooseProtocol(SSL*, const unsigned char** out, unsigned char* out_length,
                   const unsigned char* offered, unsigned int offered_length, void*) {
  static constexpr std::string_view kSpoken = "\x08http/1.1";
  unsigned char* chosen = nullptr;
  const int found = SSL_select_next_proto(&chosen, out_length,
                                          reinterpret_cast<const unsigned char*>(kSpoken.data()),
                                          kSpoken.size(), offered, offered_length);
  *out = chosen;
  return found == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_NOACK;
}

}  // namespace

absl::StatusOr<TlsFiles> TlsFiles::Load(const std::string& certificate_file,
                                        const std::string& key_file, Report report) {
  TlsFiles files(certificate_file, key_file, std::move(report));
  if (auto status = files.Read(); !status.ok()) return status;
  return files;
}

std::shared_ptr<asio::ssl::context> TlsFiles::Current() {
  const auto now = std::chrono::steady_clock::now();
  if (now - looked_ < kLook) return context_;
  looked_ = now;
  if (Stamp() == stamp_) {
    last_problem_.clear();
    return context_;
  }
  const absl::Status read = Read();
  const std::string problem(read.message());
  if (read.ok() || problem != last_problem_) report_(read);
  last_problem_ = problem;
  return context_;
}

absl::Status TlsFiles::Reload() {
  const absl::Status read = Read();
  last_problem_ = std::string(read.message());
  return read;
}

absl::Status TlsFiles::Read() {
  std::string stamp = Stamp();
  looked_ = std::chrono::steady_clock::now();
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_server);
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                       asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                       asio::ssl::context::no_tlsv1_1);
  SSL_CTX_set_alpn_select_cb(context->native_handle(), ChooseProtocol, nullptr);
  boost::system::error_code error;
  const Pipes pipes = context_ == nullptr ? Pipes::kWait : Pipes::kDoNotWait;
  const auto certificates = ReadNamedFile("certificate file", certificate_file_, pipes);
  if (!certificates.ok()) return certificates.status();
  const auto key = ReadNamedFile("key file", key_file_, pipes);
  if (!key.ok()) return key.status();
  context->use_certificate_chain(asio::buffer(*certificates), error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat("certificate file ", certificate_file_,
                                                   ": must be certificates in PEM, its own first"));
  }
  context->use_private_key(asio::buffer(*key), asio::ssl::context::pem, error);
  if (!error && SSL_CTX_check_private_key(context->native_handle()) == 1) {
    context_ = std::move(context);
    stamp_ = std::move(stamp);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("key file ", key_file_, ": must be the key of ",
                                                 certificate_file_, " in PEM, not encrypted"));
}

std::string TlsFiles::Stamp() const {
  std::string stamp;
  for (const std::string& file : {certificate_file_, key_file_}) {
    std::error_code ignored;
    absl::StrAppend(&stamp, std::filesystem::file_size(file, ignored), " ",
                    std::filesystem::last_write_time(file, ignored).time_since_epoch().count(),
                    " ");
  }
  return stamp;
}

}  // namespace tvq::gateway
