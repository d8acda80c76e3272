// Names of sessions.
#ifndef TVQ_SERVER_SESSIONS_RECORD_SESSION_ID_H_
#define TVQ_SERVER_SESSIONS_RECORD_SESSION_ID_H_

#include <string>
#include <string_view>

namespace tvq {

// 128 bits from the system's random source, as 32 hexadecimal digits: no client guesses another's
// id, and two servers never draw the same. Thread-safe.
std::string NewSessionId();

bool IsSessionId(std::string_view text);

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_RECORD_SESSION_ID_H_
