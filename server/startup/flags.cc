#include "server/startup/flags.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/flags.h"
#include "models/runtime/registry.h"
#include "server/drain/hand_over.h"
#include "server/startup/find_models.h"

namespace tvq {
namespace {

using flags::Add;
using flags::AddSize;
using flags::EnvironmentName;

constexpr int kUsageError = 2;

// CLI::NonNegativeNumber's complaint has the 309 digits of the largest double.
CLI::Range NotNegative() { return {int64_t{0}, int64_t{1} << 60, "NONNEGATIVE"}; }

// --NAME, --no-NAME, or either with =true or =false.
CLI::Option* AddSwitch(CLI::App& app, const std::string& flag, bool& value,
                       const std::string& help) {
  return app.add_flag(flag + ",!--no-" + flag.substr(2), value, help)
      ->envname(EnvironmentName(flag))
      ->capture_default_str();
}

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What to serve: each --model, and the folders of --model-dir.
struct ModelSources {
  std::vector<std::string> models;
  std::string dir;
};

// Not Add: the two are one choice, which the environment makes only if no flag does, and only the
// environment separates models by commas, which a path may hold.
void AddModelSources(CLI::App& app, ModelSources& sources) {
  app.add_option("--model", sources.models,
                 "A model to serve, NAME=DIR; repeatable (Env:TVQ_MODEL, separated by commas)")
      ->type_name("NAME=DIR");
  app.add_option("--model-dir", sources.dir,
                 "Serve every folder in it that holds a config.json, under the folder's name "
                 "(Env:TVQ_MODEL_DIR)")
      ->type_name("DIR");
}

void AddModelFlags(CLI::App& app, Flags& flags) {
  Add(app, "--device", flags.device, "Where to compute: cpu, cuda (a build with it), reference");
  Add(app, "--threads", flags.threads, "Threads that compute; 0: one for each core")
      ->check(CLI::Range(0, 4096));
  AddSwitch(app, "--tf32", flags.tf32,
            "With --device cuda: float32 prompts multiply faster, factors rounded to 11 bits");
  Add(app, "--dtype", flags.dtype, "Weights in memory; int4 on the CPU alone")
      ->check(CLI::IsMember({"float32", "bfloat16", "int8", "int4"}));
  Add(app, "--state-dtype", flags.state_dtype,
      "Recent values of a session; default: as --dtype, bfloat16 for int8 and int4")
      ->check(CLI::IsMember({"float32", "bfloat16"}));
  Add(app, "--state-read-dtype", flags.state_read_dtype,
      "What decode reads of a Transformer-VQ's session: exact, or an int8 copy, which takes memory "
      "and less time; without effect on other families")
      ->check(CLI::IsMember({"exact", "int8"}));
  Add(app, "--attention-skip-mass", flags.attention_skip_mass,
      "Softmax mass that decode may leave out of a Transformer-VQ's attention, to read fewer rows "
      "of values: 0 (exact) to less than 1; without effect on other families")
      ->check(CLI::Validator(
          [](const std::string& text) {
            float mass = 0;
            const bool is_share = absl::SimpleAtof(text, &mass) && mass >= 0 && mass < 1;
            return is_share ? std::string() : text + " is not a share: 0 to less than 1";
          },
          "0 to less than 1"));
  Add(app, "--max-model-len", flags.max_model_len,
      absl::StrCat("Longest context in tokens; 0: as each model says, and ", kDefaultMaxModelLen,
                   " for one that does not say and whose sessions grow"))
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 40));
  Add(app, "--draft-tokens", flags.draft_tokens,
      "Tokens that a decode step guesses ahead, where a text repeats itself and few sequences "
      "decode, and verifies: the same tokens, sooner; 0: none; without effect on families and "
      "devices that cannot take tokens back")
      ->check(CLI::Range(0, 64));
}

void AddLogFlags(CLI::App& app, LogOptions& logs) {
  Add(app, "--log-level", logs.level,
      "trace, debug (a line for each call), info, warning, error or off")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}));
  Add(app, "--log-format", logs.format, "text, or json: an object a line")
      ->check(CLI::IsMember({"text", "json"}));
  Add(app, "--log-slow-call", logs.slow_call_seconds,
      "Seconds after which a call is logged at level info")
      ->check(CLI::Range(0.0, 1e9));
}

void AddSecurityFlags(CLI::App& app, ServerOptions& server) {
  Add(app, "--api-key-file", server.gate.api_key_file,
      "File of keys, a line each: NAME SHA256HEX [generate,sessions,admin] [weight=N] "
      "[max-num-seqs=N] [max-num-admitted-seqs=N]; empty: no key needed. SIGHUP has it, and the "
      "certificates, read again");
  CLI::Option* const certificate =
      Add(app, "--ssl-certfile", server.tls.certificate_file,
          "The server's certificates in PEM, its own first; empty: no TLS");
  CLI::Option* const key =
      Add(app, "--ssl-keyfile", server.tls.key_file, "The key of --ssl-certfile in PEM");
  certificate->needs(key);
  key->needs(certificate);
  Add(app, "--ssl-ca-certs", server.tls.ca_file,
      "Demand of clients a certificate that one of these, in PEM, has signed")
      ->needs(certificate);
  Add(app, "--max-requests-per-second", server.gate.max_requests_per_second,
      "Calls of a key in a second, and at once; more are refused with RESOURCE_EXHAUSTED; 0: no "
      "limit")
      ->check(CLI::Range(0.0, 1e6));
  const auto sequences = CLI::Range(0, 1 << 20);
  Add(app, "--max-num-seqs-per-key", server.gate.limits.max_num_seqs,
      "Sequences of a key, or of all without keys, that compute in one step, if the file of keys "
      "does not say; 0: no limit")
      ->check(sequences);
  Add(app, "--max-num-admitted-seqs-per-key", server.gate.limits.max_num_admitted_seqs,
      "Sequences of a key, or of all without keys, that are admitted at once, if the file of keys "
      "does not say; the requests of others wait; 0: no limit")
      ->check(sequences);
}

void AddEngineFlags(CLI::App& app, EngineOptions& engine) {
  const auto positive = CLI::Range(int64_t{1}, int64_t{1} << 40);
  Add(app, "--max-num-seqs", engine.max_num_seqs,
      "Sequences that compute in one step; when more are admitted, they take turns")
      ->check(CLI::Range(1, 65536));
  Add(app, "--max-num-admitted-seqs", engine.max_num_admitted_seqs,
      "Sequences that are admitted at once, if the memory of states has room for them; 0: 4096, or "
      "--max-num-seqs if that is more")
      ->check(CLI::Range(0, 1 << 20));
  Add(app, "--max-num-queued-reqs", engine.max_num_queued_reqs,
      "Requests that wait; more are refused with RESOURCE_EXHAUSTED")
      ->check(positive);
  Add(app, "--max-num-queued-tokens", engine.max_num_queued_tokens, "Prompt tokens that wait")
      ->check(positive);
  Add(app, "--max-num-batched-tokens", engine.max_num_batched_tokens,
      "Tokens computed in one step: one for each decoding sequence, the rest prompts")
      ->check(positive);
  Add(app, "--stream-interval", engine.stream_interval,
      "Tokens of a stream that go out together while more sequences want to compute than one step "
      "has; 1: each at "
      "once, always")
      ->check(positive);
  AddSwitch(
      app, "--enforce-eager", engine.enforce_eager,
      "Launch the kernels of a decode step one by one, for profiles, and not as a CUDA graph");
  AddSize(app, "--state-memory-bytes", engine.state_memory_bytes,
          "Memory of states where they compute; 0: what the machine or container leaves, without "
          "--session-host-bytes")
      ->check(NotNegative());
}

void AddSessionFlags(CLI::App& app, SessionFlags& sessions) {
  SessionOptions& options = sessions.options;
  auto* const dir = Add(app, "--session-dir", sessions.dir,
                        "Directory where sessions outlive the server; empty: none");
  Add(app, "--redis", sessions.redis,
      "Redis where sessions outlive the server, redis://[user:password@]host[:port][/database] or "
      "unix://path; empty: none")
      ->excludes(dir);
  AddSize(app, "--session-disk-bytes", sessions.disk_bytes,
          "Sessions on the durable tier: in the directory of --session-dir or, whatever the name "
          "says, in the Redis of --redis; 0: no limit")
      ->check(NotNegative());
  AddSize(app, "--session-host-bytes", options.host_bytes,
          "States of idle sessions in host memory; 0: a quarter of what the machine or container "
          "leaves")
      ->check(NotNegative());
  Add(app, "--session-ttl", sessions.ttl,
      "Seconds after which a session that is not used is deleted, if its creator does not say; 0: "
      "never")
      ->check(CLI::Range(0.0, 1e10));
  AddSwitch(
      app, "--session-transcripts", options.keep_transcript,
      "Keep the token ids of sessions beside their states, if their creator does not say; on");
  Add(app, "--max-sessions-per-key", options.max_sessions_per_owner,
      "Sessions of a key, or of all without keys; 0: no limit")
      ->check(NotNegative());
  AddSize(app, "--max-session-bytes-per-key", options.max_bytes_per_owner,
          "States, marks, transcripts and kept replies of a key, or of all without keys; 0: no "
          "limit")
      ->check(NotNegative());
  AddSize(app, "--max-snapshot-bytes", options.max_snapshot_bytes,
          "Largest snapshot that is imported; 0: what the largest model needs, 256 MiB of states "
          "that grow")
      ->check(NotNegative());
  AddSize(app, "--prefix-cache-bytes", options.prefix_bytes,
          "States of prompts' beginnings that are kept; 0: none")
      ->check(NotNegative());
  Add(app, "--shared-prompt-file", sessions.shared_prompt_files,
      "File with a prompt whose states all keys may use; repeatable");
  Add(app, "--drain-peer", sessions.drain_peer,
      "HOST:PORT of a server that takes over the sessions when this one stops; empty: none");
  Add(app, "--drain-peer-key", sessions.drain_peer_key,
      "Key with the peer's admin permission; needs TLS unless the peer is on this machine");
}

void AddServerFlags(CLI::App& app, ServerOptions& server, int64_t& keepalive_time,
                    int64_t& keepalive_timeout) {
  Add(app, "--host", server.host, "Address to listen on; 0.0.0.0 or :: for all");
  Add(app, "--port", server.port, "Port to listen on; 0: a free one, printed to stdout")
      ->check(CLI::Range(0, 65535));
  Add(app, "--max-prompt-tokens", server.limits.max_prompt_tokens,
      "Longest prompt in tokens; 0: no limit")
      ->check(NotNegative());
  AddSize(app, "--max-message-bytes", server.max_message_bytes, "Largest request")
      ->check(CLI::Range(int64_t{1024}, int64_t{1} << 30));
  AddSize(app, "--max-connection-bytes", server.max_connection_bytes,
          "Memory of all connections, calls and requests on their way in; 0: 32 of the largest "
          "requests")
      ->check(NotNegative());
  Add(app, "--max-streams-per-connection", server.connections.max_streams,
      "Calls that a client may have open on a connection; its gRPC lets more wait")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 30));
  Add(app, "--max-resets-per-second", server.connections.max_resets_per_second,
      "Calls that a client may begin and give up in a second; its connection is closed beyond it, "
      "or those of its address beyond four times that; 0: no limit")
      ->check(CLI::Range(0.0, 1e9));
  Add(app, "--keepalive-time", keepalive_time, "Seconds of silence before a client is pinged")
      ->check(CLI::Range(1, 86400));
  Add(app, "--keepalive-timeout", keepalive_timeout,
      "Seconds without an answer to a ping before the client is taken for gone")
      ->check(CLI::Range(1, 86400));
}

// NAME=DIR.
absl::StatusOr<ModelFlag> ParseModel(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model: is \"", argument, "\", must be NAME=DIR"));
  }
  return ModelFlag{.name = argument.substr(0, equals), .dir = argument.substr(equals + 1)};
}

// The folders of `dir`, but for those whose names `models` have.
absl::Status AddFolders(const std::string& dir, std::vector<ModelFlag>* models) {
  auto found = FindModels(dir);
  if (!found.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--model-dir: ", std::string(found.status().message())));
  }
  for (ModelFlag& folder : *found) {
    const auto same = std::find_if(models->begin(), models->end(), [&](const ModelFlag& model) {
      return model.name == folder.name;
    });
    if (same == models->end()) {
      models->push_back(std::move(folder));
    } else {
      same->instead_of = std::move(folder.dir);
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ModelFlag>> ModelsOf(ModelSources sources) {
  if (sources.models.empty() && sources.dir.empty()) {
    sources.models = absl::StrSplit(Environment("TVQ_MODEL"), ',', absl::SkipEmpty());
    sources.dir = Environment("TVQ_MODEL_DIR");
  }
  std::vector<ModelFlag> models;
  std::set<std::string> names;
  for (const std::string& argument : sources.models) {
    auto model = ParseModel(argument);
    if (!model.ok()) return model.status();
    if (!names.insert(model->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("--model: the name \"", model->name, "\" is given twice"));
    }
    models.push_back(*std::move(model));
  }
  if (!sources.dir.empty()) {
    if (auto status = AddFolders(sources.dir, &models); !status.ok()) return status;
  }
  if (models.empty()) return absl::InvalidArgumentError("--model or --model-dir is required");
  return models;
}

}  // namespace

std::optional<Flags> ParseFlags(int argc, char** argv, int* exit_code) {
  Flags flags;
  ModelSources sources;
  int64_t keepalive_time = flags.server.keepalive_time.count();
  int64_t keepalive_timeout = flags.server.keepalive_timeout.count();

  int64_t paused_timeout =
      std::chrono::duration_cast<std::chrono::seconds>(flags.engine.paused_timeout).count();

  CLI::App app(
      "Serves autoregressive models with a state of constant size over gRPC.\n"
      "Every flag can be given as the environment variable in parentheses; flags win.",
      "tvq-server");
  app.set_version_flag("--version", TVQ_VERSION);
  AddModelSources(app, sources);
  AddModelFlags(app, flags);
  AddServerFlags(app, flags.server, keepalive_time, keepalive_timeout);
  AddSecurityFlags(app, flags.server);
  AddSessionFlags(app, flags.sessions);
  AddEngineFlags(app, flags.engine);
  Add(app, "--paused-timeout", paused_timeout,
      "Seconds for which a request waits for a reader that takes nothing; then it is ended")
      ->check(CLI::Range(1, 86400));
  Add(app, "--shutdown-timeout", flags.shutdown_timeout,
      "Seconds running requests may take to finish after SIGTERM or SIGINT")
      ->check(CLI::Range(0.0, 86400.0));
  Add(app, "--watchdog-timeout", flags.watchdog_timeout,
      "Seconds one step may take before health says NOT_SERVING; 0: any")
      ->check(CLI::Range(0.0, 86400.0));
  Add(app, "--metrics-port", flags.metrics_port,
      "Port of Prometheus metrics over HTTP, at /metrics; 0: none")
      ->check(CLI::Range(0, 65535));
  Add(app, "--metrics-host", flags.metrics_host,
      "Address to listen on for metrics, which need no key; 0.0.0.0 or :: for all");
  AddLogFlags(app, flags.logs);
  app.footer("Exit codes: 0 stopped by a signal, 1 could not load or listen, 2 wrong usage.");
  flags::RefuseEmptyNumbers(app);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    *exit_code = app.exit(e) == 0 ? 0 : kUsageError;
    return std::nullopt;
  }
  const auto refuse = [exit_code](const absl::Status& status) {
    std::cerr << status.message() << "\n";
    *exit_code = kUsageError;
    return std::nullopt;
  };
  if (flags.device == "cuda" && flags.dtype == "int4") {
    return refuse(absl::InvalidArgumentError(
        "--dtype: is \"int4\", must be float32, bfloat16 or int8 with --device cuda"));
  }
  auto models = ModelsOf(std::move(sources));
  if (!models.ok()) return refuse(models.status());
  flags.models = *std::move(models);
  if (auto status = CheckPeer({.address = flags.sessions.drain_peer,
                               .key = flags.sessions.drain_peer_key,
                               .tls = flags.server.tls});
      !flags.sessions.drain_peer.empty() && !status.ok()) {
    return refuse(status);
  }
  flags.server.keepalive_time = std::chrono::seconds(keepalive_time);
  flags.server.keepalive_timeout = std::chrono::seconds(keepalive_timeout);
  flags.engine.paused_timeout = std::chrono::seconds(paused_timeout);
  return flags;
}

}  // namespace tvq
