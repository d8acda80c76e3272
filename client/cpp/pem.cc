#include "client/cpp/pem.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <memory>

namespace tvq::client {
namespace {

using Bio = std::unique_ptr<BIO, decltype(&BIO_free_all)>;

Bio BioOf(const std::string& text) {
  return {BIO_new_mem_buf(text.data(), static_cast<int>(text.size())), &BIO_free_all};
}

}  // namespace

bool AreCertificates(const std::string& text) {
  const Bio bio = BioOf(text);
  ERR_clear_error();
  int count = 0;
  while (X509* const next = PEM_read_bio_X509_AUX(bio.get(), nullptr, nullptr, nullptr)) {
    X509_free(next);
    ++count;
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  return at_end && count > 0;
}

bool IsPrivateKey(const std::string& text) {
  const auto no_password = [](char*, int, int, void*) { return -1; };
  EVP_PKEY* const key = PEM_read_bio_PrivateKey(BioOf(text).get(), nullptr, no_password, nullptr);
  EVP_PKEY_free(key);
  ERR_clear_error();
  return key != nullptr;
}

}  // namespace tvq::client
