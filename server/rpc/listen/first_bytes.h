// Which protocol a client speaks that has just connected.
#ifndef TVQ_SERVER_RPC_LISTEN_FIRST_BYTES_H_
#define TVQ_SERVER_RPC_LISTEN_FIRST_BYTES_H_

#include <cstddef>
#include <string_view>

namespace tvq {

enum class Protocol {
  kUnknown,  // more bytes will tell
  kGrpc,     // HTTP/2, or the beginning of a TLS handshake where the server has TLS
  kHttp1,    // as of curl or a browser
  kOther
};

// More are never needed: the length of HTTP/2's connection preface (RFC 9113, section 3.4).
constexpr size_t kPrefaceBytes = 24;

// `bytes`: the first that the client sent, perhaps none.
Protocol ProtocolOf(std::string_view bytes, bool tls);

// A whole answer of HTTP/1, with an error object as the gateway's: where HTTP is served.
std::string_view AnswerToHttp1();

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LISTEN_FIRST_BYTES_H_
