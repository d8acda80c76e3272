// Header blocks of HTTP/2 that do not end.
//
// gRPC 1.51 takes one in for as long as it comes (HEADERS, and then CONTINUATION for ever), bounds
// only what a single frame of it has, and keeps some 70 bytes for one that came; a field in it that
// does not end it parses again for each read. No flow control holds such frames back, and nothing
// that gRPC counts tells them from a message. So what gRPC reads is looked at here, on its way:
// this library has functions in the place of the system's recvmsg and OpenSSL's SSL_read, which
// call those. A connection with a block that is too long fails when gRPC reads it.
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

// What gRPC will read from the socket is looked at, as that of a new connection without TLS. Those
// with TLS are looked at anyway.
void WatchHeaders(int fd);

// Connections that failed for their headers, since the start.
int64_t FailedForHeaders();

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_HEADER_BLOCKS_H_
