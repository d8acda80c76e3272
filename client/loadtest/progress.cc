#include "client/loadtest/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "absl/strings/str_format.h"

namespace tvq::loadtest {
namespace {

constexpr Nanos kBarInterval = 200 * kMillisecond;
constexpr Nanos kLineInterval = 5 * kSecond;
constexpr int kBarWidth = 24;

}  // namespace

ProgressLine::ProgressLine(std::string label, Nanos length)
    : label_(std::move(label)), length_(length), terminal_(isatty(STDERR_FILENO) == 1) {
  next_ = terminal_ ? kBarInterval : kLineInterval;
}

ProgressLine::~ProgressLine() {
  if (terminal_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::Update(const Driver::Progress& progress, const Recorder::Totals& totals) {
  if (progress.elapsed < next_) return;
  next_ = progress.elapsed + (terminal_ ? kBarInterval : kLineInterval);
  const double rate = static_cast<double>(totals.tokens - last_tokens_) /
                      std::max(1e-9, ToSeconds(progress.elapsed - last_));
  last_ = progress.elapsed;
  last_tokens_ = totals.tokens;
  std::string line = label_;
  if (terminal_) {
    const auto full = static_cast<int>(
        std::min(1.0, ToSeconds(progress.elapsed) / ToSeconds(length_)) * kBarWidth);
    line = "\r\033[K" + line + " [" + std::string(full, '#') + std::string(kBarWidth - full, '.') +
           "]";
  }
  absl::StrAppendFormat(
      &line, " %.0f of %.0f s%s, %d sent, %d ended, %d failed, %d in flight, %.0f tokens/s",
      ToSeconds(progress.elapsed), ToSeconds(length_),
      progress.draining ? ", waiting for the last" : "", totals.arrived, totals.ended,
      totals.failed, progress.in_flight, rate);
  if (!terminal_) line += "\n";
  std::fputs(line.c_str(), stderr);
}

}  // namespace tvq::loadtest
