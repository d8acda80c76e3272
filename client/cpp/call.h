// What the calls of all services share.
#ifndef TVQ_CLIENT_CPP_CALL_H_
#define TVQ_CLIENT_CPP_CALL_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace tvq::client {

struct CallOptions {
  absl::Duration timeout = absl::InfiniteDuration();
  std::string request_id;  // names the call in the server's logs; empty: the server makes one
};

// How long the server asks to wait before trying again; nothing if it did not say, or said never.
std::optional<absl::Duration> RetryAfter(const absl::Status& status);

// The messages of one call, in order. Destroying it before the end cancels the call.
template <typename Message>
class Stream {
 public:
  virtual ~Stream() = default;
  // Waits for the next message; false when there is none any more.
  virtual bool Next(Message* message) = 0;
  // After Next was false: how the call ended. CANCELLED: by Cancel. DEADLINE_EXCEEDED: the timeout,
  // or messages were taken too slowly.
  virtual absl::Status Finish() = 0;
  // Ends the call soon, and Next with it. Any thread.
  virtual void Cancel() = 0;
};

// Gives the next bytes of a snapshot, in pieces of any size; an empty piece is the end. An error
// cancels the call, which then ends with this error.
using ChunkSource = std::function<absl::StatusOr<std::string>()>;

// Takes the next bytes of a snapshot of `total_bytes`. An error cancels the call, which then ends
// with this error.
using ChunkSink = std::function<absl::Status(std::string_view chunk, int64_t total_bytes)>;

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_CALL_H_
