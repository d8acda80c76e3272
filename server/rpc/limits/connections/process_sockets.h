// The connections of this process, at whichever end they were opened.
#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_PROCESS_SOCKETS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_PROCESS_SOCKETS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "server/rpc/limits/connections/connection.h"

namespace tvq {

// Calls `see` with each socket that is connected. It may be closed, and its number be used again,
// at any time. Takes one descriptor; false if there is none. Some 2 us each.
bool ForEachConnected(
    const std::function<void(int fd, const Address& peer, const Address& local)>& see);

// The other ends of connections to one of its ports.
std::vector<Address> PeersAt(int port);

// What has come over the connections of this process.
class SocketBytes {
 public:
  // As of now.
  SocketBytes();
  // Fills in the bytes that had come over each, and whether it has ended by now.
  void CountFor(std::vector<Connection>* connections) const;

 private:
  struct Bytes {
    int64_t received = 0;
    int64_t unread = 0;
  };
  using Ends = std::tuple<std::string, int, std::string, int>;  // peer and local

  std::map<Ends, Bytes> by_ends_;
  bool all_ = false;  // none is missing
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_PROCESS_SOCKETS_H_
