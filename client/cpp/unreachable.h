#ifndef TVQ_CLIENT_CPP_UNREACHABLE_H_
#define TVQ_CLIENT_CPP_UNREACHABLE_H_

#include <string>
#include <string_view>

namespace tvq::client {

// Ends the message about a server that is not there.
inline constexpr char kIsItRunning[] = "Is tvq-server running?";
// Ends the message about a server whose certificate is not believed.
inline constexpr char kGiveAuthority[] = "Give the CA certificates that its own comes from.";

// What to tell instead of gRPC's message about a call that did not reach a server, or whose
// connection broke; "" for any other message. Names the proxy's variable where the call went to
// one.
std::string Unreachable(std::string_view message);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_UNREACHABLE_H_
