#ifndef TVQ_BASE_RESIDENT_BYTES_H_
#define TVQ_BASE_RESIDENT_BYTES_H_

#include <cstdint>

namespace tvq {

// Of this process, in memory; 0 where the system does not tell. Some 5 us.
int64_t ResidentBytes();

}  // namespace tvq

#endif  // TVQ_BASE_RESIDENT_BYTES_H_
