#ifndef TVQ_CLIENT_LOADTEST_PROGRESS_H_
#define TVQ_CLIENT_LOADTEST_PROGRESS_H_

#include <string>

#include "client/loadtest/driver/driver.h"
#include "client/loadtest/statistics/recorder.h"

namespace tvq::loadtest {

// Tells on stderr how far a step is: a bar on a terminal, elsewhere a line every five seconds.
class ProgressLine {
 public:
  // Warm-up and duration together are `length`.
  ProgressLine(std::string label, Nanos length);
  ~ProgressLine();

  void Update(const Driver::Progress& progress, const Recorder::Totals& totals);

 private:
  const std::string label_;
  const Nanos length_;
  const bool terminal_;
  Nanos next_ = 0;  // update
  Nanos last_ = 0;
  int64_t last_tokens_ = 0;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_PROGRESS_H_
