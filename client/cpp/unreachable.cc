#include "client/cpp/unreachable.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/cpp/proxy.h"

namespace tvq::client {
namespace {

// How gRPC's messages begin if a connection broke during a call.
constexpr const char* kBroken[] = {"Socket closed",
                                   "recvmsg",
                                   "sendmsg",
                                   "Connection reset",
                                   "Broken pipe",
                                   "GOAWAY",
                                   "keepalive",
                                   "Keepalive",
                                   "ping timeout",
                                   "Transport closed",
                                   "Endpoint ",
                                   "Delayed close",
                                   "Stream removed",
                                   "Connection timed out",
                                   "Received RST_STREAM"};

constexpr char kNotTls[] =
    " does not speak TLS. Leave out https:// and what else asks for TLS; the port of tvq-server is "
    "50051 by default.";
constexpr char kDistrusted[] = " does not believe the certificate of this client, or wants one.";
constexpr char kOtherName[] = " shows a certificate that is of another name.";

// A part of the reason, in small letters and with blanks, and what to tell behind the address.
constexpr struct {
  const char* reason;
  const char* told;
} kTlsFailures[] = {
    {"wrong version number", kNotTls},
    {"packet length too long", kNotTls},
    {"http request", kNotTls},
    {"is not in peer certificate", kOtherName},
    {"hostname verification", kOtherName},
    {"alpn", " speaks HTTPS, as tvq-gateway does. Give the address of tvq-server itself."},
    {"alert certificate", kDistrusted},
    {"alert bad certificate", kDistrusted},
    {"alert unsupported certificate", kDistrusted},
    {"alert unknown ca", kDistrusted}};

bool IsBroken(absl::string_view message) {
  for (const char* begin : kBroken) {
    if (absl::StartsWith(message, begin)) return true;
  }
  return false;
}

// "ipv4:127.0.0.1:1", "ipv6:%5B::1%5D:1", "unix:/tmp/socket".
std::string AddressOf(absl::string_view target) {
  if (!absl::ConsumePrefix(&target, "ipv4:")) absl::ConsumePrefix(&target, "ipv6:");
  return absl::StrReplaceAll(target, {{"%5B", "["}, {"%5D", "]"}, {"%25", "%"}});
}

std::string NoName(absl::string_view rest) {
  const absl::string_view name = rest.substr(0, rest.find(": "));
  const bool is_unknown = absl::StrContains(rest, "Domain name not found") ||
                          absl::StrContains(rest, "Name or service not known");
  return absl::StrCat("No server at ", name, ": ",
                      is_unknown ? "there is no such name" : "the name cannot be looked up", ".",
                      OfProxy({name.data(), name.size()}), " ", kIsItRunning);
}

// BoringSSL writes CERTIFICATE_VERIFY_FAILED where OpenSSL writes certificate verify failed.
std::string OfTls(absl::string_view reason) {
  const std::string text = absl::StrReplaceAll(absl::AsciiStrToLower(reason), {{"_", " "}});
  if (absl::StrContains(text, "certificate verify failed")) {
    return absl::StrCat(
        " shows a certificate that no authority signed which this client trusts, or ",
        "that has expired. ", kGiveAuthority);
  }
  for (const auto& failure : kTlsFailures) {
    if (absl::StrContains(text, failure.reason)) return failure.told;
  }
  return "";
}

}  // namespace

std::string Unreachable(std::string_view message) {
  absl::string_view rest(message.data(), message.size());
  if (IsBroken(rest))
    return "The connection to the server broke: the server ended or closed it, or is out of reach.";
  if (absl::ConsumePrefix(&rest, "DNS resolution failed for ") ||
      absl::ConsumePrefix(&rest, "errors resolving ")) {  // of newer versions
    return NoName(rest);
  }
  if (absl::StartsWith(rest, "empty address list")) {
    return absl::StrCat("No server: its name has no address. ", kIsItRunning);
  }
  // CODE: TARGET: REASON
  if (!absl::ConsumePrefix(&rest, "failed to connect to all addresses; last error: ")) return "";
  const std::pair<absl::string_view, absl::string_view> code =
      absl::StrSplit(rest, absl::MaxSplits(": ", 1));
  const std::pair<absl::string_view, absl::string_view> target =
      absl::StrSplit(code.second, absl::MaxSplits(": ", 1));
  if (target.second.empty()) return "";
  const std::string address = AddressOf(target.first);
  absl::string_view reason = target.second;
  absl::ConsumePrefix(&reason, "Failed to connect to remote host: ");
  absl::ConsumePrefix(&reason, "connect: ");  // of newer versions
  const std::string tls = OfTls(reason);
  reason = reason.substr(0, reason.rfind(" ("));  // newer versions add the number
  if (absl::ConsumePrefix(&reason, "HTTP proxy returned response code ")) {
    return absl::StrCat("The proxy at ", address, " answers ", reason,
                        " instead of a connection to the server.", OfProxy(address));
  }
  if (absl::StrContains(reason, "Failed parsing HTTP/2") || absl::StrContains(reason, "http1")) {
    return absl::StrCat(address,
                        " speaks HTTP, as tvq-gateway does. Give the address of tvq-server "
                        "itself, of which the port is 50051 by default.");
  }
  const bool is_none = reason == "Connection refused" || reason == "No such file or directory";
  if (is_none || absl::StrContains(reason, "route") || absl::StrContains(reason, "unreachable") ||
      absl::StrContains(reason, "timed out")) {
    return absl::StrCat("No server at ", address, is_none ? "" : absl::StrCat(" (", reason, ")"),
                        ".", OfProxy(address), " ", kIsItRunning);
  }
  if (!tls.empty()) return address + tls;
  if (IsBroken(reason)) reason = "it closes the connection";
  return absl::StrCat("Cannot connect to ", address, ": ", reason, ".", OfProxy(address),
                      " Does the server speak TLS, or not, and who signed its certificate?");
}

}  // namespace tvq::client
