#include "server/rpc/listen/first_bytes.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
static_assert(kPreface.size() == kPrefaceBytes);

constexpr char kTlsHandshake = 22;  // the type of the first record (RFC 8446, section 5.1)

constexpr std::string_view kBody =
    R"({"error":{"message":"This port of tvq-server speaks gRPC. tvq-gateway serves HTTP, on port )"
    R"(8000 unless --port says otherwise.","type":"invalid_request_error","param":null,)"
    R"("code":"grpc_port"}})"
    "\n";

}  // namespace

Protocol ProtocolOf(std::string_view bytes, bool tls) {
  if (bytes.empty()) return Protocol::kUnknown;
  if (tls && bytes.front() == kTlsHandshake) return Protocol::kGrpc;
  if (!tls && bytes.starts_with(kPreface)) return Protocol::kGrpc;
  if (!tls && kPreface.starts_with(bytes)) return Protocol::kUnknown;
  // A method and a space. That of the preface is none of HTTP/1.
  if (bytes.starts_with("PRI ")) return Protocol::kOther;
  const auto* const end = std::ranges::find_if_not(bytes, absl::ascii_isupper);
  if (end == bytes.end()) {
    return bytes.size() < kPrefaceBytes ? Protocol::kUnknown : Protocol::kOther;
  }
  return *end == ' ' && end != bytes.begin() ? Protocol::kHttp1 : Protocol::kOther;
}

std::string_view AnswerToHttp1() {
  static const std::string kAnswer =
      absl::StrCat("HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: ",
                   kBody.size(), "\r\nConnection: close\r\n\r\n", std::string(kBody));
  return kAnswer;
}

}  // namespace tvq
