// Header blocks of HTTP/2 that do not end.
//
// gRPC 1.51 reads such a block for as long as it comes: HEADERS, and then CONTINUATION for ever. It
// bounds only the content of each frame, and keeps up to 70 bytes for each byte that came. A field
// that does not end is parsed again at each read. Flow control does not hold such frames back, and
// gRPC's counts do not tell them from a message. So this library watches what gRPC reads: it
// replaces the system's recvmsg and OpenSSL's SSL_read by functions that call them. If a block is
// too long, they fail, and so does the connection.
#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_HEADER_BLOCKS_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_HEADER_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace tvq {

// The bytes that a client sends over one connection, from its first. One thread at a time.
class HeaderBlocks {
 public:
  // On the wire. gRPC refuses calls with more than 8 KiB of metadata.
  static constexpr int64_t kMostBytes = 64 << 10;

  // What came next. False once a block is longer than it may be.
  bool Take(std::span<const uint8_t> bytes);

 private:
  static constexpr int kHead = 9;  // bytes of a frame's

  void Begin();  // a frame, whose head is there

  int64_t left_ = 24;  // of the frame's payload; at first of the connection's preface
  uint8_t head_[kHead] = {};
  int has_ = 0;        // of head_
  int64_t block_ = 0;  // bytes of the block that has begun and not ended
};

// From now on, watches what gRPC reads from this socket: a new connection without TLS. Connections
// with TLS are watched without this.
void WatchHeaders(int fd);

// Connections that failed for their headers, since the start.
int64_t FailedForHeaders();

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_HEADER_BLOCKS_H_
