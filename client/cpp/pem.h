// Not part of the interface: what files of certificates and keys hold.
#ifndef TVQ_CLIENT_CPP_PEM_H_
#define TVQ_CLIENT_CPP_PEM_H_

#include <string>

namespace tvq::client {

// Whether a text holds certificates in PEM, at least one, all of which can be read.
bool AreCertificates(const std::string& text);

// Whether it holds a private key in PEM that is not encrypted.
bool IsPrivateKey(const std::string& text);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_PEM_H_
