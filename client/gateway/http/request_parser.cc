#include "client/gateway/http/request_parser.h"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/parser.hpp>
#include <iterator>
#include <string>

#include "absl/strings/ascii.h"

namespace tvq::gateway {
namespace http = boost::beast::http;

namespace {

// "0\r\n\r\n". Beast asserts that it has this much of a last chunk that it has seen before.
constexpr size_t kLastChunkBytes = 5;

// A target that is a whole address, as a proxy is asked, becomes its path; `host` becomes its host.
// RFC 9112, 3.2.2: a server must take it, and the header Host does not count.
std::string OriginForm(std::string_view target, std::string* host) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!boost::beast::iequals(target.substr(0, scheme.size()), scheme)) continue;
    target.remove_prefix(scheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    *host = target.substr(0, end);
    target.remove_prefix(end);
    std::string path(target);
    if (!path.starts_with('/')) path.insert(path.begin(), '/');
    return path;
  }
  return std::string(target);
}

}  // namespace

class RequestParser::Impl {
 public:
  explicit Impl(size_t max_header_bytes) : max_header_bytes(max_header_bytes) {
    parser.header_limit(static_cast<uint32_t>(max_header_bytes));
    parser.body_limit(boost::none);  // what reads the body has a limit
  }

  Result Put(std::string_view bytes, size_t* consumed) {
    boost::system::error_code error;
    *consumed = parser.put(boost::asio::const_buffer(bytes.data(), bytes.size()), error);
    if (!error) return Result::kDone;
    if (error == http::error::need_more) return Result::kMore;
    if (error == http::error::need_buffer) return Result::kFull;
    if (error == http::error::header_limit) return Result::kTooLarge;
    return Result::kBad;
  }

  // Looks at each line once. Beast gets the request line as soon as it is whole, so that what is
  // not HTTP is refused early, and the other lines together: what it does with a header in pieces
  // does not matter, nor that its limit is for each of them.
  Result PutHeader(std::string_view bytes, size_t* consumed) {
    while (true) {
      const size_t end = bytes.find('\n', searched);
      if (end == std::string_view::npos) break;
      if (end == line || bytes[end - 1] != '\r') return Result::kBad;
      const bool is_request_line = line == 0, is_last = end == line + 1;
      searched = line = end + 1;
      if (++lines > kMaxHeaderLines && !is_last) return Result::kTooLarge;
      if (!is_request_line && !is_last) continue;
      size_t taken = 0;
      const Result result = Put(bytes.substr(given, line - given), &taken);
      given += taken;
      if (result == Result::kTooLarge) return result;
      if (is_last && parser.is_header_done() && IsEndOfBodyClear()) {
        *consumed += line;
        return Result::kDone;
      }
      if (is_last || result != Result::kMore || given != line) return Result::kBad;
    }
    searched = bytes.size();
    return bytes.size() < max_header_bytes ? Result::kMore : Result::kTooLarge;
  }

  // Beast takes a body's end from Transfer-Encoding where its last word is "chunked", and ignores
  // the field otherwise: the body would be read as the next request.
  bool IsEndOfBodyClear() const {
    const auto [begin, end] = parser.get().equal_range(http::field::transfer_encoding);
    if (begin == end) return true;
    return std::next(begin) == end && parser.get().version() == 11 &&
           boost::beast::iequals(begin->value(), "chunked");
  }

  const size_t max_header_bytes;
  http::request_parser<http::buffer_body> parser;
  // Of the header's bytes:
  size_t searched = 0;  // for ends of lines
  size_t line = 0;      // where the line begins that has no end yet
  size_t given = 0;     // to Beast
  size_t lines = 0;
  bool expects_continue = false;
};

RequestParser::RequestParser(size_t max_header_bytes)
    : impl_(std::make_unique<Impl>(max_header_bytes)) {}

RequestParser::~RequestParser() = default;

RequestParser::Result RequestParser::ParseHeader(std::string_view bytes, size_t* consumed) {
  *consumed = 0;
  if (impl_->searched == 0) {
    *consumed = std::min(bytes.find_first_not_of("\r\n"), bytes.size());
    bytes.remove_prefix(*consumed);
  }
  if (bytes.empty()) return Result::kMore;
  // TLS where none is expected, which may have no line at all.
  if (!absl::ascii_isgraph(static_cast<unsigned char>(bytes.front()))) return Result::kBad;
  return impl_->PutHeader(bytes.substr(0, impl_->max_header_bytes), consumed);
}

Request RequestParser::TakeRequest() {
  auto& message = impl_->parser.get();
  Request request;
  request.method = std::string(message.method_string());
  std::string host;
  const std::string target = OriginForm(message.target(), &host);
  const size_t question = std::min(target.find('?'), target.size());
  request.path = target.substr(0, question);
  if (question < target.size()) request.query = target.substr(question + 1);
  request.http10 = message.version() < 11;
  for (const auto& field : message) {
    const bool replaced = !host.empty() && field.name() == http::field::host;
    request.headers.push_back(
        {std::string(field.name_string()), replaced ? host : std::string(field.value())});
  }
  impl_->expects_continue = boost::beast::iequals(message[http::field::expect], "100-continue");
  message.clear();  // a request may live for long, and one copy is enough
  return request;
}

bool RequestParser::keep_alive() const { return impl_->parser.keep_alive(); }

bool RequestParser::expects_continue() const { return impl_->expects_continue; }

bool RequestParser::body_done() const { return impl_->parser.is_done(); }

std::optional<uint64_t> RequestParser::content_length() const {
  const auto length = impl_->parser.content_length();
  if (!length) return std::nullopt;
  return *length;
}

RequestParser::Result RequestParser::ParseBody(std::string_view bytes, size_t* consumed, char* out,
                                               size_t out_bytes, size_t* written) {
  *consumed = *written = 0;
  if (impl_->parser.chunked() && bytes.starts_with('0') && bytes.size() < kLastChunkBytes) {
    return Result::kMore;
  }
  auto& body = impl_->parser.get().body();
  body.data = out;
  body.size = out_bytes;
  const Result result = impl_->Put(bytes, consumed);
  *written = out_bytes - body.size;
  body.data = nullptr;
  body.size = 0;
  // Beast takes a chunk's header, and the last one with the trailers, in one piece of any length.
  const size_t header_bytes = result == Result::kMore ? bytes.size() - *consumed : *consumed;
  if (*written == 0 && header_bytes > impl_->max_header_bytes) return Result::kTooLarge;
  if (impl_->parser.is_done()) {
    impl_->parser.get().clear();  // of trailers, which are not read
    return Result::kDone;
  }
  if (result != Result::kDone) return result;
  return *consumed > 0 && *consumed < bytes.size() ? Result::kFull : Result::kMore;
}

}  // namespace tvq::gateway
