#ifndef TVQ_SERVER_STARTUP_READABLE_BYTES_H_
#define TVQ_SERVER_STARTUP_READABLE_BYTES_H_

#include <cstdint>
#include <string>

namespace tvq {

// A size for people: "36.5 kB". Powers of 1000.
std::string ReadableBytes(int64_t bytes);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_READABLE_BYTES_H_
