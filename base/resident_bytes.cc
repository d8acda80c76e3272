#include "base/resident_bytes.h"

#include <unistd.h>

#include <fstream>

namespace tvq {

int64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t size = 0;
  int64_t resident = 0;
  file >> size >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace tvq
