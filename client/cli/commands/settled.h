#ifndef TVQ_CLIENT_CLI_COMMANDS_SETTLED_H_
#define TVQ_CLIENT_CLI_COMMANDS_SETTLED_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace tvq::cli {

// How long an interrupted answer may take to be committed.
inline constexpr absl::Duration kSettleTime = absl::Seconds(10);

// Calls again, for so long, while the server still commits an answer that was interrupted.
inline absl::Status UntilSettled(absl::Duration patience,
                                 const std::function<absl::Status()>& call) {
  constexpr absl::Duration kPause = absl::Milliseconds(20);
  const absl::Time end = absl::Now() + patience;
  absl::Status status = call();
  while (absl::IsAborted(status) && absl::Now() < end) {
    absl::SleepFor(kPause);
    status = call();
  }
  return status;
}

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_SETTLED_H_
