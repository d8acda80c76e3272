// Which web pages may call.
#ifndef TVQ_CLIENT_GATEWAY_ORIGINS_H_
#define TVQ_CLIENT_GATEWAY_ORIGINS_H_

#include <string>
#include <string_view>
#include <vector>

namespace tvq::gateway {

// What is wrong with an origin as an operator writes it, "" if nothing: a browser would never send
// it so, and it would allow no page. "*" and "null", a page of a file, are right.
std::string WrongOrigin(const std::string& origin);

// A page may call from the gateway's own origin, and from those that are allowed. The owner of a
// name can let it resolve to this machine's address (DNS rebinding); that owner's page then seems
// to be the gateway's own. So a name in a Host header counts only if no stranger can own it.
//
// Immutable.
class Origins {
 public:
  // `host` is what the gateway listens on; `tls`: strangers' names are kept away by its
  // certificate. `allowed` are the origins of pages elsewhere: "https://example.org"; "*": all.
  Origins(std::string_view host, bool tls, std::vector<std::string> allowed);

  enum class Page { kOwn, kAllowed, kForeign };
  // The page at `origin` (a header; empty: no page says so), when it calls `host` (a header).
  Page Of(std::string_view origin, std::string_view host) const;

  // Whether a request for `host` (a header) is refused: the gateway can only be reached from this
  // machine, and this is a name that some page had resolve to it.
  bool IsRebound(std::string_view host) const;

  bool any() const { return any_; }
  // Whether an answer depends on the header Origin.
  bool vary() const { return !allowed_.empty(); }

 private:
  bool IsKnown(std::string_view host) const;

  const std::vector<std::string> allowed_;
  const bool any_;
  const bool guards_;  // listens for this machine alone, without TLS
  std::vector<std::string> names_;
};

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_ORIGINS_H_
