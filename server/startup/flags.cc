#include "server/startup/flags.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/flags.h"
#include "models/runtime/registry/registry.h"
#include "server/startup/find_models.h"

namespace tvq {
namespace {

constexpr int64_t kMany = int64_t{1} << 40;

std::string Environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

// What to serve: each --model, and the folders of --model-dir.
struct ModelSources {
  std::vector<std::string> models;
  std::string dir;
};

// Not AddSetting: the two are one choice, which the environment makes only if no flag does, and
// only the environment separates models by commas, which a path may hold.
void AddModelSources(flags::Command app, ModelSources& sources) {
  app.Heading("Models");
  app.Add("--model", sources.models,
          "A model to serve, NAME=DIR; repeatable (Env:TVQ_MODEL, separated by commas)")
      .TypeName("NAME=DIR");
  app.Add("--model-dir", sources.dir,
          "Serve every folder in it that holds a config.json, under the folder's name "
          "(Env:TVQ_MODEL_DIR)")
      .TypeName("DIR");
}

void AddModelFlags(flags::Command app, Flags& flags) {
  app.AddSetting("--device", flags.device,
                 "Where to compute: cpu, cuda (a build with it), reference")
      .OneOfUnnamed({"cpu", "cuda", "reference"});
  app.AddSetting("--threads", flags.threads, "Threads that compute; 0: one for each core")
      .Within(0, 4096);
  app.AddSwitchSetting(
      "--tf32", flags.tf32,
      "With --device cuda: float32 prompts multiply faster, factors rounded to 11 bits");
  app.AddSetting("--dtype", flags.dtype, "Weights in memory; int4 on the CPU alone")
      .OneOf({"float32", "bfloat16", "int8", "int4"});
  app.AddSetting("--state-dtype", flags.state_dtype,
                 "Recent values of a session; default: as --dtype, bfloat16 for int8 and int4")
      .OneOf({"float32", "bfloat16"});
  app.AddSetting(
         "--state-read-dtype", flags.state_read_dtype,
         "What decode reads of a session of a Transformer-VQ or a converted model: exact, or an "
         "int8 copy, which takes memory and less time")
      .OneOf({"exact", "int8"});
  app.AddSetting("--attention-skip-mass", flags.attention_skip_mass,
                 "Softmax mass that decode may leave out of the attention of a Transformer-VQ or a "
                 "converted model, to read fewer rows of values: 0 (exact) to less than 1")
      .Check(
          [](const std::string& text) {
            float mass = 0;
            const bool is_share = absl::SimpleAtof(text, &mass) && mass >= 0 && mass < 1;
            return is_share ? std::string() : text + " is not a share: 0 to less than 1";
          },
          "0 to less than 1");
  app.AddSetting(
         "--max-model-len", flags.max_model_len,
         absl::StrCat("Longest context in tokens; 0: as each model says, and ", kDefaultMaxModelLen,
                      " for one that does not say and whose sessions grow"))
      .Within(int64_t{0}, int64_t{1} << 40);
  app.AddSetting(
         "--draft-tokens", flags.draft_tokens,
         "Tokens that a decode step guesses ahead, where a text repeats itself and few sequences "
         "decode, and verifies: the same tokens, sooner; 0: none; without effect on families and "
         "devices that cannot take tokens back")
      .Within(0, 64);
}

void AddLogFlags(flags::Command app, LogOptions& logs) {
  app.Heading("Logs");
  app.AddSetting("--log-level", logs.level,
                 "trace, debug (a line for each call), info, warning, error or off")
      .OneOf({"trace", "debug", "info", "warning", "error", "off"});
  app.AddSetting("--log-format", logs.format, "text, or json: an object a line")
      .OneOf({"text", "json"});
  app.AddSetting("--log-slow-call", logs.slow_call_seconds,
                 "Seconds after which a call is logged at level info")
      .Within(0.0, 1e9);
}

void AddSecurityFlags(flags::Command app, ServerOptions& server) {
  app.Heading("Keys, TLS, and limits of a key");
  app.AddSetting(
      "--api-key-file", server.gate.api_key_file,
      "File of keys, a line each: NAME SHA256HEX [generate,sessions,admin] [weight=N] "
      "[max-num-seqs=N] [max-num-admitted-seqs=N]; empty: no key needed. SIGHUP has it, and the "
      "certificates, read again");
  const flags::Option certificate =
      app.AddSetting("--ssl-certfile", server.tls.certificate_file,
                     "The server's certificates in PEM, its own first; empty: no TLS");
  const flags::Option key =
      app.AddSetting("--ssl-keyfile", server.tls.key_file, "The key of --ssl-certfile in PEM");
  certificate.Needs(key);
  key.Needs(certificate);
  app.AddSetting("--ssl-ca-certs", server.tls.ca_file,
                 "Demand of clients a certificate that one of these, in PEM, has signed")
      .Needs(certificate);
  app.AddSetting(
         "--max-requests-per-second", server.gate.max_requests_per_second,
         "Calls of a key, or without keys of an address, in a second, and at once; more are "
         "refused with RESOURCE_EXHAUSTED; 0: no limit")
      .Within(0.0, 1e6);
  app.AddSetting("--max-num-seqs-per-key", server.gate.limits.max_num_seqs,
                 "Sequences of a key, or without keys of an address, that compute in one step, if "
                 "the file of keys does not say; 0: no limit")
      .Within(0, 1 << 20);
  app.AddSetting("--max-num-admitted-seqs-per-key", server.gate.limits.max_num_admitted_seqs,
                 "Sequences of a key, or without keys of an address, that are admitted at once, if "
                 "the file of keys does not say; the requests of others wait; 0: no limit")
      .Within(0, 1 << 20);
}

void AddEngineFlags(flags::Command app, EngineOptions& engine) {
  app.Heading("Scheduling and memory");
  app.AddSetting("--max-num-seqs", engine.max_num_seqs,
                 "Sequences that compute in one step; when more are admitted, they take turns")
      .Within(1, 65536);
  app.AddSetting("--max-num-admitted-seqs", engine.max_num_admitted_seqs,
                 "Sequences that are admitted at once, if the memory of states has room for them; "
                 "0: 4096, or --max-num-seqs if that is more")
      .Within(0, 1 << 20);
  app.AddSetting("--max-num-queued-reqs", engine.max_num_queued_reqs,
                 "Requests that wait; more are refused with RESOURCE_EXHAUSTED")
      .Within(int64_t{1}, kMany);
  app.AddSetting("--max-num-queued-tokens", engine.max_num_queued_tokens, "Prompt tokens that wait")
      .Within(int64_t{1}, kMany);
  app.AddSetting("--max-num-batched-tokens", engine.max_num_batched_tokens,
                 "Tokens computed in one step: one for each decoding sequence, the rest prompts")
      .Within(int64_t{1}, kMany);
  app.AddSetting("--stream-interval", engine.stream_interval,
                 "Tokens of a stream that go out together while more sequences want to compute "
                 "than one step has; 1: each at once, always")
      .Within(int64_t{1}, kMany);
  app.AddSwitchSetting(
      "--enforce-eager", engine.enforce_eager,
      "Launch the kernels of a decode step one by one, for profiles, and not as a CUDA graph");
  app.AddSizeSetting(
         "--state-memory-bytes", engine.state_memory_bytes,
         "Memory of states where they compute; 0: what the machine or container leaves, without "
         "--session-host-bytes")
      .NotNegative();
}

void AddSessionFlags(flags::Command app, SessionFlags& sessions) {
  app.Heading("Sessions");
  SessionOptions& options = sessions.options;
  const flags::Option dir = app.AddSetting(
      "--session-dir", sessions.dir, "Directory where sessions outlive the server; empty: none");
  app.AddSetting("--redis", sessions.redis,
                 "Redis where sessions outlive the server, "
                 "redis://[user:password@]host[:port][/database] or unix://path; empty: none")
      .Excludes(dir);
  app.AddSizeSetting(
         "--session-disk-bytes", sessions.disk_bytes,
         "Sessions on the durable tier: in the directory of --session-dir or, whatever the name "
         "says, in the Redis of --redis; 0: nine tenths of what is free there at the start, beside "
         "what is there")
      .NotNegative();
  app.AddSizeSetting(
         "--session-host-bytes", options.host_bytes,
         "States of idle sessions in host memory; 0: a quarter of what the machine or container "
         "leaves")
      .NotNegative();
  app.AddSetting("--session-ttl", sessions.ttl,
                 "Seconds after which a session that is not used is deleted, if its creator does "
                 "not say; 0: never")
      .Within(0.0, 1e10);
  app.AddSwitchSetting(
      "--session-transcripts", options.keep_transcript,
      "Keep the token ids of sessions beside their states, if their creator does not say; on");
  app.AddSetting("--max-sessions", options.max_sessions,
                 "Sessions of all keys, in memory and on the durable tier; 0: no limit")
      .NotNegative();
  app.AddSetting(
         "--max-sessions-per-key", options.max_sessions_per_owner,
         "Sessions of a key, or of all without keys; 0: no limit but that a key leaves some "
         "to others")
      .NotNegative();
  app.AddSizeSetting(
         "--max-session-bytes-per-key", options.max_bytes_per_owner,
         "States, marks, transcripts and kept replies of a key, or of all without keys; 0: no "
         "limit but that a key leaves some to others")
      .NotNegative();
  app.AddSizeSetting(
         "--max-snapshot-bytes", options.max_snapshot_bytes,
         "Largest snapshot that is imported; 0: what the largest model needs, 256 MiB of states "
         "that grow")
      .NotNegative();
  app.AddSizeSetting("--prefix-cache-bytes", options.prefix_bytes,
                     "States of prompts' beginnings that are kept; 0: none")
      .NotNegative();
  app.AddSizeSetting(
         "--prefix-disk-bytes", options.stored_prefix_bytes,
         "Of those, states on the durable tier of beginnings that came again, for the next start "
         "and other servers; at most a tenth of what is free there; 0: none")
      .NotNegative();
  app.AddSetting("--shared-prompt-file", sessions.shared_prompt_files,
                 "File with a prompt whose states all keys may use; repeatable");
}

void AddServerFlags(flags::Command app, ServerOptions& server, int64_t& keepalive_time,
                    int64_t& keepalive_timeout) {
  app.Heading("Address and connections");
  app.AddSetting("--host", server.host, "Address to listen on; 0.0.0.0 or :: for all").NotEmpty();
  app.AddSetting("--port", server.port, "Port to listen on; 0: a free one, printed to stdout")
      .Within(0, 65535);
  app.AddSetting("--max-connections", server.max_connections,
                 "Connections at once; where there are more, those that do nothing are closed")
      .Within(1, 1'000'000);
  app.AddSetting("--max-prompt-tokens", server.limits.max_prompt_tokens,
                 "Longest prompt in tokens; 0: no limit")
      .NotNegative();
  app.AddSizeSetting("--max-message-bytes", server.max_message_bytes, "Largest request")
      .Within(int64_t{1024}, int64_t{1} << 30);
  app.AddSizeSetting(
         "--max-connection-bytes", server.max_connection_bytes,
         "Memory of all connections, calls and requests on their way in, of which requests without "
         "a key may take half; 0: 32 of the largest requests")
      .NotNegative();
  app.AddSetting("--max-streams-per-connection", server.connections.max_streams,
                 "Calls that a client may have open on a connection; its gRPC lets more wait")
      .Within(int64_t{1}, int64_t{1} << 30);
  app.AddSetting(
         "--max-resets-per-second", server.connections.max_resets_per_second,
         "Calls that a client may begin and give up in a second; beyond it its connection is "
         "closed. All of an address, and all without a key, share four times as many. 0: no "
         "limit, nor of the calls that all without a key have open")
      .Within(0.0, 1e9);
  app.AddSetting("--keepalive-time", keepalive_time, "Seconds of silence before a client is pinged")
      .Within(1, 86400);
  app.AddSetting("--keepalive-timeout", keepalive_timeout,
                 "Seconds without an answer to a ping before the client is taken for gone")
      .Within(1, 86400);
}

// What was probably meant by a folder without a name: it, under the name that --model-dir would
// give it, or the models in it.
std::string Meant(const std::string& dir) {
  if (FindModels(dir).ok())
    return absl::StrCat("; --model-dir ", dir, " serves all that are in it");
  std::error_code error;
  std::filesystem::path path = std::filesystem::absolute(dir, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();  // it ended with a slash
  const std::string name = path.filename().string();
  return name.empty() ? "" : absl::StrCat(", such as ", name, "=", dir);
}

// NAME=DIR. `from`: --model, or the variable.
absl::StatusOr<ModelFlag> ParseModel(const std::string& argument, const char* from) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == argument.size()) {
    const bool is_dir = equals == std::string::npos && !argument.empty();
    return absl::InvalidArgumentError(absl::StrCat(
        from, ": is \"", argument, "\", must be NAME=DIR", is_dir ? Meant(argument) : ""));
  }
  return ModelFlag{.name = argument.substr(0, equals), .dir = argument.substr(equals + 1)};
}

// The folders of `dir`, but for those whose names `models` have.
absl::Status AddFolders(const std::string& dir, const char* from, std::vector<ModelFlag>* models) {
  auto found = FindModels(dir);
  if (!found.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(from, ": ", std::string(found.status().message())));
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
  const bool from_environment = sources.models.empty() && sources.dir.empty();
  const char* const model_from = from_environment ? "TVQ_MODEL" : "--model";
  if (from_environment) {
    sources.models = absl::StrSplit(Environment("TVQ_MODEL"), ',', absl::SkipEmpty());
    sources.dir = Environment("TVQ_MODEL_DIR");
  }
  std::vector<ModelFlag> models;
  std::set<std::string> names;
  for (const std::string& argument : sources.models) {
    auto model = ParseModel(argument, model_from);
    if (!model.ok()) return model.status();
    if (!names.insert(model->name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(model_from, ": the name \"", model->name, "\" is given twice"));
    }
    models.push_back(*std::move(model));
  }
  if (!sources.dir.empty()) {
    const char* const from = from_environment ? "TVQ_MODEL_DIR" : "--model-dir";
    if (auto status = AddFolders(sources.dir, from, &models); !status.ok()) return status;
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

  const flags::Program app(
      "Serves autoregressive models with a state of constant size over gRPC.\n"
      "Every flag can be given as the environment variable in parentheses; flags win.",
      "tvq-server");
  app.Version(TVQ_VERSION);
  AddModelSources(app, sources);
  AddModelFlags(app, flags);
  AddServerFlags(app, flags.server, keepalive_time, keepalive_timeout);
  AddSecurityFlags(app, flags.server);
  AddSessionFlags(app, flags.sessions);
  AddEngineFlags(app, flags.engine);
  app.Heading("Timeouts and metrics");
  app.AddSetting(
         "--paused-timeout", paused_timeout,
         "Seconds for which a request waits for a reader that takes nothing; then it is ended")
      .Within(1, 86400);
  app.AddSetting("--shutdown-timeout", flags.shutdown_timeout,
                 "Seconds running requests may take to finish after SIGTERM or SIGINT")
      .Within(0.0, 86400.0);
  app.AddSetting("--watchdog-timeout", flags.watchdog_timeout,
                 "Seconds one step may take before health says NOT_SERVING; 0: any")
      .Within(0.0, 86400.0);
  app.AddSetting("--metrics-port", flags.metrics_port,
                 "Port of Prometheus metrics over HTTP, at /metrics; 0: none")
      .Within(0, 65535);
  app.AddSetting("--metrics-host", flags.metrics_host,
                 "Address to listen on for metrics, which need no key; 0.0.0.0 or :: for all")
      .NotEmpty();
  AddLogFlags(app, flags.logs);
  app.Footer("Exit codes: 0 stopped by a signal, 1 could not load or listen, 2 wrong usage.");

  if (const std::optional<int> ends = app.Parse(argc, argv)) {
    *exit_code = *ends;
    return std::nullopt;
  }
  const auto refuse = [exit_code](const absl::Status& status) {
    std::cerr << status.message() << "\n";
    *exit_code = flags::Program::kUsageError;
    return std::nullopt;
  };
  if (flags.device == "cuda" && flags.dtype == "int4") {
    return refuse(absl::InvalidArgumentError(
        "--dtype: is \"int4\", must be float32, bfloat16 or int8 with --device cuda"));
  }
  if (flags.device != "cuda" && flags.tf32) {
    return refuse(absl::InvalidArgumentError(
        absl::StrCat("--tf32: must be left out with --device ", flags.device, ", is for cuda")));
  }
  auto models = ModelsOf(std::move(sources));
  if (!models.ok()) return refuse(models.status());
  flags.models = *std::move(models);
  flags.server.keepalive_time = std::chrono::seconds(keepalive_time);
  flags.server.keepalive_timeout = std::chrono::seconds(keepalive_timeout);
  flags.engine.paused_timeout = std::chrono::seconds(paused_timeout);
  return flags;
}

}  // namespace tvq
