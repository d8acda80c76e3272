// What clients may ask of sessions; the comments of session.proto say the same.
#ifndef TVQ_SERVER_SESSIONS_RECORD_SESSION_LIMITS_H_
#define TVQ_SERVER_SESSIONS_RECORD_SESSION_LIMITS_H_

#include <cstddef>
#include <cstdint>

namespace tvq {

inline constexpr size_t kMaxLabelBytes = 256;
inline constexpr size_t kMaxKeyBytes = 128;   // of an idempotency key
inline constexpr size_t kMaxMarkBytes = 128;  // of a mark's name
inline constexpr size_t kMaxMarks = 1000;     // of a session
inline constexpr int32_t kMaxForks = 128;     // of one call
inline constexpr int64_t kDefaultPageSize = 100;
inline constexpr int64_t kMaxPageSize = 1000;

// The most bytes of a reply that is kept for a retry.
inline constexpr size_t kMaxReplyBytes = 1 << 20;

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_SESSION_LIMITS_H_
