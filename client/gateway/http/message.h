// HTTP requests and answers as plain values.
#ifndef TVQ_CLIENT_GATEWAY_HTTP_MESSAGE_H_
#define TVQ_CLIENT_GATEWAY_HTTP_MESSAGE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tvq::gateway {

struct Header {
  std::string name;
  std::string value;
};

struct Request {
  std::string method;  // GET, POST, ...
  std::string path;    // as sent, without the query
  std::string query;   // as sent, without the '?'
  std::vector<Header> headers;
  bool http10 = false;

  // Value of the first header of this name, in any case; empty if there is none.
  std::string_view Find(std::string_view name) const;
  // How many headers have this name.
  int Count(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";  // empty: none is sent
  std::string body;
  std::vector<Header> headers;  // further ones
};

// "Not Found" and the like; empty for what has no name.
std::string_view ReasonPhrase(int status);

// %41 to A, and '+' to a space where `plus` asks for it. False if a % is not followed by two
// hexadecimal digits.
bool PercentDecode(std::string_view text, bool plus, std::string* out);

using QueryFields = std::vector<std::pair<std::string, std::string>>;

// The fields of a query, decoded, in their order. False if one cannot be decoded.
bool ParseQuery(std::string_view query, QueryFields* fields);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_MESSAGE_H_
