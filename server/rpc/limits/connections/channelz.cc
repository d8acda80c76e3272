#include "server/rpc/limits/connections/channelz.h"

#include <grpc/grpc.h>
#include <grpc/support/alloc.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/time/time.h"

namespace tvq {
namespace {

using nlohmann::json;

// Takes what a function of channelz returned. Null for nothing, as of a connection that has gone.
json Take(char* text) {
  if (text == nullptr) return nullptr;
  json parsed = json::parse(text, nullptr, /*allow_exceptions=*/false);
  gpr_free(text);
  return parsed.is_object() ? parsed : json();
}

// The member at `path`; null if it is not there.
const json& At(const json& object, const char* path) {
  static const json kNone;
  const json::json_pointer pointer(path);
  return object.contains(pointer) ? object[pointer] : kNone;
}

// Numbers of 64 bits are strings, as protobuf writes them; zeros are left out.
int64_t Number(const json& value) {
  int64_t number = 0;
  if (value.is_number_integer()) return value.get<int64_t>();
  if (!value.is_string() || !absl::SimpleAtoi(value.get_ref<const std::string&>(), &number)) {
    return 0;
  }
  return number;
}

// Nothing for what is no TCP connection.
std::optional<Address> AddressOf(const json& end) {
  const json& ip = At(end, "/tcpip_address/ip_address");
  Address address{.port = static_cast<int>(Number(At(end, "/tcpip_address/port")))};
  if (!ip.is_string() || !absl::Base64Unescape(ip.get_ref<const std::string&>(), &address.ip)) {
    return std::nullopt;
  }
  return address;
}

// InfinitePast for what has not happened yet.
absl::Time TimeOf(const json& value) {
  absl::Time time = absl::InfinitePast();
  if (value.is_string()) {
    absl::ParseTime(absl::RFC3339_full, value.get_ref<const std::string&>(), &time, nullptr);
  }
  return time;
}

// Calls `see` with each element of `array` in all pages that `get` returns. The first page begins
// at the id `first`, and each other page behind the last id of the page before. `array` and `id`
// are paths: of the elements in a page, and of the id in an element.
template <typename Get, typename See>
void ForEach(const char* array, const char* id, intptr_t first, const Get& get, const See& see) {
  while (true) {
    const json page = Take(get(first));
    for (const json& element : At(page, array)) {
      first = std::max<intptr_t>(first, Number(At(element, id)) + 1);
      see(element);
    }
    if (At(page, array).empty() || page.contains("end")) return;
  }
}

template <typename See>
void ForEachServer(const See& see) {
  ForEach("/server", "/ref/serverId", 0, grpc_channelz_get_servers, see);
}

// gRPC names a socket "chttp2 ipv4:192.0.2.1:4711".
std::string PeerName(const json& name) {
  if (!name.is_string()) return "";
  const auto& text = name.get_ref<const std::string&>();
  return text.substr(text.find(' ') + 1);
}

}  // namespace

std::optional<Connection> ReadConnection(int64_t id) {
  const json answer = Take(grpc_channelz_get_socket(static_cast<intptr_t>(id)));
  const auto peer = AddressOf(At(answer, "/socket/remote"));
  const auto local = AddressOf(At(answer, "/socket/local"));
  if (!peer || !local) return std::nullopt;
  return Connection{
      .id = id,
      .name = PeerName(At(answer, "/socket/ref/name")),
      .peer = *peer,
      .local_ip = local->ip,
      .local_port = local->port,
      .started = Number(At(answer, "/socket/data/streamsStarted")),
      .succeeded = Number(At(answer, "/socket/data/streamsSucceeded")),
      .failed = Number(At(answer, "/socket/data/streamsFailed")),
      .messages = Number(At(answer, "/socket/data/messagesReceived")),
      .sent = Number(At(answer, "/socket/data/messagesSent")),
      .bytes = 0,
      .last_used = std::max(TimeOf(At(answer, "/socket/data/lastRemoteStreamCreatedTimestamp")),
                            TimeOf(At(answer, "/socket/data/lastMessageSentTimestamp")))};
}

int64_t CallsStarted() {
  int64_t started = 0;
  ForEachServer([&](const json& server) { started += Number(At(server, "/data/callsStarted")); });
  return started;
}

std::vector<Connection> OpenConnections(int64_t after) {
  std::vector<Connection> connections;
  ForEachServer([&](const json& server) {
    const auto id = static_cast<intptr_t>(Number(At(server, "/ref/serverId")));
    ForEach(
        "/socketRef", "/socketId", static_cast<intptr_t>(after + 1),
        [id](intptr_t first) { return grpc_channelz_get_server_sockets(id, first, 0); },
        [&](const json& socket) {
          const auto read = ReadConnection(Number(At(socket, "/socketId")));
          if (read) connections.push_back(*read);
        });
  });
  return connections;
}

std::vector<Connection> OpenConnectionsAt(int port) {
  std::vector<Connection> open = OpenConnections();
  std::erase_if(open, [port](const Connection& one) { return one.local_port != port; });
  return open;
}

}  // namespace tvq
