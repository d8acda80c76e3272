// What the answers of all generating requests have in common.
#ifndef TVQ_CLIENT_GATEWAY_BODIES_EVENTS_H_
#define TVQ_CLIENT_GATEWAY_BODIES_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "tvq/v1/generation.pb.h"

namespace tvq::gateway {

// What all pieces of an answer say of it.
struct AnswerHead {
  std::string id;  // "cmpl-..."
  std::string model;
  int64_t created = 0;  // unix seconds
};

// The server-sent events of a streamed answer. Text is appended to `out`, so that several events go
// out as one write.
class Events {
 public:
  virtual ~Events() = default;
  // Events of a message from the call with this number.
  virtual void Append(size_t call, const v1::GenerateResponse& response, std::string* out) = 0;
  // When all calls have ended well.
  virtual void AppendEnd(std::string* out) = 0;
};

// An answer in one piece.
class Whole {
 public:
  virtual ~Whole() = default;
  virtual void Add(size_t call, const v1::GenerateResponse& response) = 0;
  virtual std::string ToJson() const = 0;
};

// The largest answer in one piece: bytes of the messages it is made of.
inline constexpr size_t kMaxAnswerBytes = size_t{16} << 20;
// What an answer in one piece keeps of a message, and of its own text, while it is made. Each byte
// of probabilities takes eight as objects and two more as text; of other messages about a third of
// their bytes is text, which is kept, and then once more as JSON.
size_t MemoryOf(const v1::GenerateResponse& message);

// The end of every stream.
inline constexpr std::string_view kDone = "data: [DONE]\n\n";

void AddUsage(const v1::Usage& usage, v1::Usage* sum);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_BODIES_EVENTS_H_
