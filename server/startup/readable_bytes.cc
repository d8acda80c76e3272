#include "server/startup/readable_bytes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tvq {

std::string ReadableBytes(int64_t bytes) {
  const char* const units[] = {"B", "kB", "MB", "GB", "TB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  for (; value >= 1000 && unit < 4; ++unit) value /= 1000;
  return unit == 0 ? absl::StrCat(bytes, " B") : absl::StrFormat("%.1f %s", value, units[unit]);
}

}  // namespace tvq
