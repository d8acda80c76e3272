#include "client/gateway/http/response_head.h"

#include <array>
#include <ctime>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace tvq::gateway {
namespace {

// As Date wants it; made once a second.
const std::string& DateHeader() {
  thread_local std::time_t made = 0;
  thread_local std::string text;
  const std::time_t now = std::time(nullptr);
  if (now != made) {
    made = now;
    std::tm parts;
    gmtime_r(&now, &parts);
    std::array<char, 64> buffer;
    const size_t size =
        std::strftime(buffer.data(), buffer.size(), "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &parts);
    text.assign(buffer.data(), size);
  }
  return text;
}

}  // namespace

std::string ResponseHead(const Response& response, const std::vector<Header>& more,
                         const Framing& framing) {
  const std::string_view phrase = ReasonPhrase(response.status);
  std::string head;
  head.reserve(512);
  absl::StrAppend(&head, "HTTP/1.1 ", response.status, " ",
                  absl::string_view(phrase.data(), phrase.size()), "\r\n", DateHeader());
  if (!response.content_type.empty()) {
    absl::StrAppend(&head, "Content-Type: ", response.content_type, "\r\n");
  }
  for (const auto* headers : {&response.headers, &more}) {
    for (const Header& header : *headers) {
      absl::StrAppend(&head, header.name, ": ", header.value, "\r\n");
    }
  }
  if (framing.length) absl::StrAppend(&head, "Content-Length: ", *framing.length, "\r\n");
  if (framing.chunked) head += "Transfer-Encoding: chunked\r\n";
  if (!framing.keep_alive) {
    head += "Connection: close\r\n";
  } else if (framing.http10) {
    head += "Connection: keep-alive\r\n";
  }
  head += "\r\n";
  return head;
}

bool HasNoBody(int status) { return status == 204 || status == 304; }

}  // namespace tvq::gateway
