// The command line of tvq-server.
#ifndef TVQ_SERVER_STARTUP_FLAGS_H_
#define TVQ_SERVER_STARTUP_FLAGS_H_

#include <optional>
#include <string>
#include <vector>

#include "server/engine/engine.h"
#include "server/rpc/services/server.h"
#include "server/startup/logs.h"
#include "server/startup/open_sessions.h"

namespace tvq {

struct ModelFlag {
  std::string name;
  std::string dir;
  std::string
      instead_of;  // a folder of the same name in --model-dir, which is not served; or empty
};

struct Flags {
  std::vector<ModelFlag> models;
  std::string device = "cpu";
  int threads = 0;
  bool tf32 = false;
  std::string dtype = "float32";
  std::string state_dtype;  // empty: as dtype
  std::string state_read_dtype = "exact";
  float attention_skip_mass = 0;  // see StateReads
  int64_t max_model_len = 0;      // see LoadOptions
  int64_t draft_tokens = 0;       // of a step; 0: none
  EngineOptions engine;
  ServerOptions server;
  SessionFlags sessions;
  double shutdown_timeout = 30;  // seconds
  double watchdog_timeout = 30;  // seconds; 0: no watchdog
  int metrics_port = 0;          // 0: no metrics
  std::string metrics_host = "127.0.0.1";
  LogOptions logs;
};

// Flags, then environment (TVQ_ and the flag's name in capitals, dashes as underscores), then
// defaults. When there is nothing to run, because of --help, --version or an error that was printed
// to stderr, returns nothing and sets the exit code: 0, or 2 for an error.
std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_FLAGS_H_
