#ifndef TVQ_SERVER_STARTUP_PROGRESS_BAR_H_
#define TVQ_SERVER_STARTUP_PROGRESS_BAR_H_

#include <chrono>
#include <cstdint>
#include <string>

namespace tvq {

// One line on stderr that fills. Shows nothing where stderr is no terminal, and nothing before half
// a second, so that quick work stays quiet. One thread.
class ProgressBar {
 public:
  explicit ProgressBar(std::string label);
  ~ProgressBar();  // wipes the line
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void Show(int64_t done, int64_t total);

 private:
  const std::string label_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  int shown_percent_ = -1;
};

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_PROGRESS_BAR_H_
