#include "server/startup/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace tvq {

ProgressBar::ProgressBar(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

ProgressBar::~ProgressBar() {
  if (shown_percent_ >= 0) std::fputs("\r\033[K", stderr);
}

void ProgressBar::Show(int64_t done, int64_t total) {
  if (!terminal_ || total <= 0) return;
  if (std::chrono::steady_clock::now() - start_ < std::chrono::milliseconds(500)) return;
  const int percent = static_cast<int>(std::min<int64_t>(100, 100 * done / total));
  if (percent == shown_percent_) return;
  shown_percent_ = percent;
  const std::string bar(percent / 4, '#');
  std::fprintf(stderr, "\r%s [%-25s] %3d%%", label_.c_str(), bar.c_str(), percent);
  std::fflush(stderr);
}

}  // namespace tvq
