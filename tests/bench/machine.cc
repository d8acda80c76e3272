#include "tests/bench/machine.h"

#include <fstream>
#include <map>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace tvq::bench {
namespace {

// "key : value" lines; the first of equal keys counts.
std::map<std::string, std::string> ReadFields(const std::string& path) {
  std::map<std::string, std::string> fields;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::pair<std::string, std::string> field = absl::StrSplit(line, absl::MaxSplits(':', 1));
    fields.emplace(absl::StripAsciiWhitespace(field.first),
                   absl::StripAsciiWhitespace(field.second));
  }
  return fields;
}

int64_t Kibibytes(const std::string& path, const std::string& field) {
  const std::map<std::string, std::string> fields = ReadFields(path);
  const auto found = fields.find(field);
  int64_t kibibytes = 0;
  if (found == fields.end() ||
      !absl::SimpleAtoi(absl::StripSuffix(found->second, " kB"), &kibibytes)) {
    return 0;
  }
  return kibibytes * 1024;
}

}  // namespace

int64_t ResidentBytes() { return Kibibytes("/proc/self/status", "VmRSS"); }

int64_t AvailableBytes() { return Kibibytes("/proc/meminfo", "MemAvailable"); }

std::string ProcessorName() {
  std::map<std::string, std::string> fields = ReadFields("/proc/cpuinfo");
  const std::string name =
      fields["model name"].empty() ? "unknown processor" : fields["model name"];
  return absl::StrCat(name, ", family ", fields["cpu family"], " model ", fields["model"], ", ",
                      std::thread::hardware_concurrency(), " cores");
}

}  // namespace tvq::bench
