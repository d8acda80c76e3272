#ifndef TVQ_CLIENT_GATEWAY_HTTP_ROUTER_H_
#define TVQ_CLIENT_GATEWAY_HTTP_ROUTER_H_

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/gateway/http/exchange.h"

namespace tvq::gateway {

// Parts of a path that a pattern names: {id}, decoded.
using PathFields = std::map<std::string, std::string, std::less<>>;
using RouteHandler = std::function<asio::awaitable<void>(Exchange&, const PathFields&)>;

// Finds what answers a request. Immutable after the last Add.
class Router {
 public:
  // `pattern` is a literal such as "/v1/sessions/{id}/fork": a {name} stands for one segment.
  void Add(std::string_view method, std::string_view pattern, RouteHandler handler);

  struct Match {
    const RouteHandler* handler = nullptr;  // nullptr: no such path, or not with this method
    std::string_view pattern;               // empty: no such path
    PathFields fields;
    std::string allow;       // methods of the path: "GET, HEAD, OPTIONS"
    bool malformed = false;  // the path cannot be decoded
  };
  // HEAD finds what GET does.
  Match Find(std::string_view method, std::string_view path) const;

 private:
  struct Route {
    std::string_view method;
    std::string_view pattern;
    std::vector<std::string_view> segments;
    RouteHandler handler;
  };
  std::vector<Route> routes_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_HTTP_ROUTER_H_
