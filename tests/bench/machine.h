// Facts about this process and the machine it runs on, from /proc.
#ifndef TVQ_TESTS_BENCH_MACHINE_H_
#define TVQ_TESTS_BENCH_MACHINE_H_

#include <cstdint>
#include <string>

namespace tvq::bench {

// Resident memory of this process (VmRSS) in bytes; 0 where /proc does not tell.
int64_t ResidentBytes();

// Memory that can be had without swapping (MemAvailable) in bytes; 0 where /proc does not tell.
int64_t AvailableBytes();

// For example "AMD EPYC 9575F, family 26 model 2, 2 cores".
std::string ProcessorName();

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_MACHINE_H_
