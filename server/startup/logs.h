// What the server writes to stderr.
#ifndef TVQ_SERVER_STARTUP_LOGS_H_
#define TVQ_SERVER_STARTUP_LOGS_H_

#include <spdlog/common.h>

#include <string>

#include "server/rpc/calls/call_recorder.h"

namespace tvq {

struct LogOptions {
  std::string level = "info";
  // "text", or "json": an object a line, with time (UTC), level, message and, of calls, their
  // fields.
  std::string format = "text";
  double slow_call_seconds = 60;  // a call that took longer is worth a line at info
};

// From here on spdlog's functions write to `sink`, by default stderr.
void SetUpLogs(const LogOptions& options, spdlog::sink_ptr sink = nullptr);

// Writes a line for each call, through what SetUpLogs made: at debug, at info if it was slow, at
// error if it ended with INTERNAL. Any thread. Of the status only the code is written, for its
// message may quote a prompt; INTERNAL quotes none.
CallRecorder::Log CallLog(const LogOptions& options);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_LOGS_H_
