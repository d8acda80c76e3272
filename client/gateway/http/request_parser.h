// The only place that knows Boost.Beast: bytes to requests.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_REQUEST_PARSER_H_
#define TVQ_CLIENT_GATEWAY_HTTP_REQUEST_PARSER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "client/gateway/http/message.h"

namespace tvq::gateway {

// Parses one request from bytes that come in pieces. What is malformed, or could be read in two
// ways (such as two lengths, or an encoding that is not exactly "chunked"), is refused.
class RequestParser {
 public:
  enum class Result {
    kDone,      // the header, or the body, is complete
    kMore,      // needs more bytes than it was given
    kFull,      // `out` is full, or there is more in `bytes`
    kBad,       // not HTTP/1
    kTooLarge,  // the header, or a chunk's, or the trailers are
  };

  // Of a header, with the request line. In memory each takes some 150 bytes beside its own.
  static constexpr size_t kMaxHeaderLines = 256;

  // Of the request line and all headers; of each chunk's header; of the last one with the trailers.
  explicit RequestParser(size_t max_header_bytes);
  ~RequestParser();

  // Reads the header from `bytes`; what it did not consume comes again with more. It consumes empty
  // lines before a request, an old habit of clients, and then nothing until it has the whole
  // header: kMore without a byte left means that no request has begun. What it returns depends on
  // the bytes alone, not on the pieces that they came in.
  Result ParseHeader(std::string_view bytes, size_t* consumed);

  // Once, after ParseHeader was kDone.
  Request TakeRequest();
  // After TakeRequest.
  bool keep_alive() const;
  bool expects_continue() const;
  bool body_done() const;
  // Of the body, if it was declared.
  std::optional<uint64_t> content_length() const;

  // Moves body bytes from `bytes` to `out`. What it did not consume comes again with more; after
  // kMore that is no more than `max_header_bytes`.
  Result ParseBody(std::string_view bytes, size_t* consumed, char* out, size_t out_bytes,
                   size_t* written);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_REQUEST_PARSER_H_
