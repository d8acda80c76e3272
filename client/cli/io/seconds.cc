#include "client/cli/io/seconds.h"

#include <cmath>
#include <ctime>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/time/time.h"

namespace tvq::cli {
namespace {

// google.protobuf.Duration's own limit: 10,000 years.
constexpr double kMaxSeconds = 315'576'000'000;

std::string ProblemWithSeconds(const std::string& text) {
  double seconds = 0;
  if (!absl::SimpleAtod(text, &seconds) || std::isnan(seconds)) {
    return "\"" + text + "\" is no number of seconds";
  }
  if (seconds >= 0 && seconds <= kMaxSeconds) return "";
  return text + " is out of range, must be from 0 to 315576000000 seconds";
}

}  // namespace

flags::Option AsSeconds(flags::Option option) {
  return option.TypeName("SECONDS").Check(ProblemWithSeconds);
}

google::protobuf::Duration ToDuration(double seconds) {
  const timespec parts = absl::ToTimespec(absl::Seconds(seconds));
  google::protobuf::Duration duration;
  duration.set_seconds(parts.tv_sec);
  duration.set_nanos(static_cast<int32_t>(parts.tv_nsec));
  return duration;
}

}  // namespace tvq::cli
