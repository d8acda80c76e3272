#include "client/cpp/grpc_words.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/cpp/unreachable.h"

namespace tvq::client {
namespace {

constexpr char kNoSuchCall[] =
    "this server does not take such calls: it is no tvq-server, or of another version than this "
    "client";
constexpr char kOtherAnswer[] =
    "what answers there is no tvq-server, or one of another version than this client";
constexpr char kBrokenOff[] =
    "the server broke the call off, or something before it did; is this the address of tvq-server?";
constexpr char kLongHeaders[] =
    "the server does not take headers that are so long; the key or the request id is too long";

// How gRPC's messages begin, those of its servers in other languages too, and what to tell.
constexpr struct {
  const char* begin;
  const char* told;
} kWords[] = {
    {"Deadline Exceeded", "the call took longer than its timeout"},
    {"Stream removed (Deadline Exceeded", "the call took longer than its timeout"},
    {"Stream removed", kBrokenOff},
    {"Received RST_STREAM", kBrokenOff},
    {"RST_STREAM", kBrokenOff},
    {"No message returned for unary request", kOtherAnswer},
    {"Failed to create secure client channel", "gRPC can make nothing of the server's address"},
    {"Method not found", kNoSuchCall},
    {"unknown service ", kNoSuchCall},
    {"unknown method ", kNoSuchCall},
    {"The server does not implement the method ", kNoSuchCall}};

// Takes the number off that `text` begins with.
bool ConsumeNumber(absl::string_view* text, uint64_t* number) {
  const size_t end = std::min(text->find_first_not_of("0123456789"), text->size());
  const bool is_number = absl::SimpleAtoi(text->substr(0, end), number);
  text->remove_prefix(end);
  return is_number;
}

// Of a request that is larger than the server takes: "Received message larger than max (7 vs. 5)".
std::string OfSize(absl::string_view message) {
  uint64_t size = 0, most = 0;
  absl::ConsumePrefix(&message, "SERVER: ");  // of newer versions
  if (!absl::ConsumePrefix(&message, "Received message larger than max (") ||
      !ConsumeNumber(&message, &size) || !absl::ConsumePrefix(&message, " vs. ") ||
      !ConsumeNumber(&message, &most)) {
    return "";
  }
  return absl::StrCat("the request has ", size, " bytes, the server takes at most ", most,
                      "; a longer text can be appended to a session in parts");
}

// Of an answer that comes from no gRPC server.
std::string OfHttp(absl::string_view message) {
  if (!absl::ConsumePrefix(&message, "Received http2 header with status: ")) return "";
  return absl::StrCat("an HTTP server or a proxy answers with status ", message,
                      " in the place of tvq-server; give the address of tvq-server itself");
}

bool AreHeadersTooLong(absl::string_view message) {
  return absl::StartsWith(message, "received initial metadata size exceeds") ||
         absl::StartsWith(message, "received metadata size exceeds");
}

}  // namespace

bool IsTooLarge(std::string_view message) {
  const absl::string_view text(message.data(), message.size());
  return AreHeadersTooLong(text) || !OfSize(text).empty();
}

std::string WithoutGrpcWords(absl::StatusCode code, std::string_view message) {
  const absl::string_view text(message.data(), message.size());
  if (code == absl::StatusCode::kUnavailable) {
    if (std::string told = Unreachable(message); !told.empty()) return told;
  }
  // So gRPC answers for a service that is not there.
  if (text.empty() && code == absl::StatusCode::kUnimplemented) return kNoSuchCall;
  if (text.empty()) return "the server did not say why";
  if (AreHeadersTooLong(text)) return kLongHeaders;
  for (std::string told : {OfSize(text), OfHttp(text)}) {
    if (!told.empty()) return told;
  }
  const auto* const found =
      std::find_if(std::begin(kWords), std::end(kWords),
                   [&](const auto& words) { return absl::StartsWith(text, words.begin); });
  return found == std::end(kWords) ? std::string(message) : found->told;
}

}  // namespace tvq::client
