#include "client/gateway/http/listen.h"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/ipv6.h"

namespace tvq::gateway {
namespace {

using asio::ip::tcp;
using ErrorCode = boost::system::error_code;

constexpr int kBacklog = 4096;
// A port that is free at one address may be another program's at the next.
constexpr int kFreePortTries = 20;

std::string Why(const ErrorCode& error) {
  if (error == asio::error::address_in_use) return "the port is in use";
  if (error == boost::system::errc::address_not_available) {
    return "the host is no address of this machine";
  }
  if (error == asio::error::address_family_not_supported) return kNoIpv6;
  if (error.category() == asio::error::get_netdb_category()) return "the host is unknown";
  return error.message();
}

absl::Status CannotListen(const std::string& where, const ErrorCode& error) {
  return absl::UnavailableError(absl::StrCat("cannot listen on ", where, ": ", Why(error)));
}

std::string ToString(const tcp::endpoint& endpoint) {
  std::ostringstream out;
  out << endpoint;
  return out.str();
}

bool IsNotHere(const ErrorCode& error) {
  return error == asio::error::address_family_not_supported ||
         error == boost::system::errc::address_not_available;
}

// `only_v6`: an address of IPv6 leaves IPv4 to others.
ErrorCode Open(const tcp::endpoint& endpoint, bool only_v6, tcp::acceptor* acceptor) {
  ErrorCode error;
  acceptor->open(endpoint.protocol(), error);
  if (!error) acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && only_v6 && endpoint.address().is_v6()) {
    acceptor->set_option(asio::ip::v6_only(true), error);
  }
  if (!error) acceptor->bind(endpoint, error);
  if (!error) acceptor->listen(kBacklog, error);
  return error;
}

// `taken`: a port that was free at another address is not at this one.
absl::StatusOr<Listeners> TryListen(const asio::any_io_executor& executor,
                                    const std::vector<tcp::endpoint>& endpoints, bool* taken) {
  *taken = false;
  Listeners listeners;
  ErrorCode last;
  for (tcp::endpoint endpoint : endpoints) {
    const bool follows = endpoint.port() == 0 && !listeners.acceptors.empty();
    if (follows) endpoint.port(listeners.acceptors.front().local_endpoint().port());
    tcp::acceptor acceptor(executor);
    last = Open(endpoint, endpoints.size() > 1, &acceptor);
    if (!last) {
      listeners.acceptors.push_back(std::move(acceptor));
    } else if (IsNotHere(last)) {
      listeners.unavailable.push_back(endpoint);
    } else {
      *taken = follows && last == asio::error::address_in_use;
      return CannotListen(ToString(endpoint), last);
    }
  }
  if (listeners.acceptors.empty()) return CannotListen(ToString(endpoints.back()), last);
  return listeners;
}

}  // namespace

absl::StatusOr<std::vector<tcp::endpoint>> Resolve(const asio::any_io_executor& executor,
                                                   const std::string& host, int port) {
  ErrorCode error;
  tcp::resolver resolver(executor);
  const auto found = resolver.resolve(
      host, std::to_string(port), tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error) return CannotListen(absl::StrCat(host, ":", port), error);
  std::vector<tcp::endpoint> endpoints;
  for (const auto& entry : found) {
    // A file of hosts may have a name twice.
    const tcp::endpoint& one = entry.endpoint();
    if (std::find(endpoints.begin(), endpoints.end(), one) == endpoints.end()) {
      endpoints.push_back(one);
    }
  }
  return endpoints;
}

absl::StatusOr<Listeners> ListenOn(const asio::any_io_executor& executor,
                                   const std::vector<tcp::endpoint>& endpoints) {
  bool taken = false;
  auto listeners = TryListen(executor, endpoints, &taken);
  for (int i = 1; taken && i < kFreePortTries; ++i) {
    listeners = TryListen(executor, endpoints, &taken);
  }
  return listeners;
}

}  // namespace tvq::gateway
