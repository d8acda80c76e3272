// A state of any size as several strings in Redis, whose own limit is 512 MiB a string.
#ifndef TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_PIECES_H_
#define TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_PIECES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/durable/redis/redis_client.h"
#include "server/sessions/snapshot/byte_stream.h"

namespace tvq {

// When what a crash has left behind is forgotten: longer than any upload takes.
inline constexpr char kUncommittedSeconds[] = "600";

// Where the pieces of a state are: <prefix>0, <prefix>1, ...
struct PieceLayout {
  std::string prefix;
  int64_t bytes = 0;        // of the state
  int64_t piece_bytes = 1;  // of each piece but the last

  int64_t pieces() const { return (bytes + piece_bytes - 1) / piece_bytes; }
  int64_t SizeOf(int64_t piece) const;
  std::string Key(int64_t piece) const;
};

// Writes pieces that Redis forgets by itself unless a manifest makes them stay. One thread.
class PieceWriter {
 public:
  PieceWriter(RedisClient::Lent* connection, PieceLayout layout);

  absl::Status Add(std::span<const std::byte> bytes);
  // All pieces are in Redis. INTERNAL if the bytes were not as many as the layout says.
  absl::Status Finish();

 private:
  absl::Status SendPiece();
  absl::Status ReceiveUntil(int64_t outstanding);

  RedisClient::Lent* const connection_;
  const PieceLayout layout_;
  std::string piece_;  // being filled
  int64_t added_ = 0;
  int64_t sent_ = 0;  // pieces
  int64_t outstanding_ = 0;
};

// Reads pieces, the next one being under way while one is used. The client must outlive it.
class PieceSource : public ByteSource {
 public:
  // `lost` is the status for a piece that is not there any more or has another size.
  PieceSource(RedisClient* client, PieceLayout layout,
              std::function<absl::Status(int64_t piece)> lost);

  absl::Status Read(std::span<std::byte> out) override;

 private:
  absl::Status Request(int64_t piece);
  absl::Status NextPiece();

  RedisClient* const client_;
  const PieceLayout layout_;
  const std::function<absl::Status(int64_t)> lost_;
  std::optional<RedisClient::Lent> connection_;  // from the first piece's request on
  int64_t requested_ = 0;                        // pieces
  int64_t received_ = 0;                         // pieces
  RedisReply piece_;
  size_t used_ = 0;  // bytes of piece_
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_DURABLE_REDIS_REDIS_PIECES_H_
