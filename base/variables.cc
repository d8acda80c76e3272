#include "base/variables.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <iostream>
#include <iterator>

#include "base/nearest.h"

namespace tvq {
namespace {

constexpr std::string_view kPrefix = "TVQ_";

// Without the prefix. tests/layering/test_variables.py compares it with what the tree reads.
constexpr std::string_view kKnown[] = {
    // tvq-server
    "API_KEY_FILE", "ATTENTION_SKIP_MASS", "DEVICE", "DRAFT_TOKENS", "DTYPE", "ENFORCE_EAGER",
    "HOST", "KEEPALIVE_TIME", "KEEPALIVE_TIMEOUT", "LOG_FORMAT", "LOG_LEVEL", "LOG_SLOW_CALL",
    "MAX_CONNECTION_BYTES", "MAX_MESSAGE_BYTES", "MAX_MODEL_LEN", "MAX_NUM_ADMITTED_SEQS",
    "MAX_NUM_ADMITTED_SEQS_PER_KEY", "MAX_NUM_BATCHED_TOKENS", "MAX_NUM_QUEUED_REQS",
    "MAX_NUM_QUEUED_TOKENS", "MAX_NUM_SEQS", "MAX_NUM_SEQS_PER_KEY", "MAX_PROMPT_TOKENS",
    "MAX_REQUESTS_PER_SECOND", "MAX_RESETS_PER_SECOND", "MAX_SESSIONS", "MAX_SESSIONS_PER_KEY",
    "MAX_SESSION_BYTES_PER_KEY", "MAX_SNAPSHOT_BYTES", "MAX_STREAMS_PER_CONNECTION", "METRICS_HOST",
    "METRICS_PORT", "MODEL", "MODEL_DIR", "PAUSED_TIMEOUT", "PORT", "PREFIX_CACHE_BYTES",
    "PREFIX_DISK_BYTES", "REDIS", "SENTENCEPIECE_LIBRARY", "SESSION_DIR", "SESSION_DISK_BYTES",
    "SESSION_HOST_BYTES", "SESSION_TRANSCRIPTS", "SESSION_TTL", "SHARED_PROMPT_FILE",
    "SHUTDOWN_TIMEOUT", "SSL_CA_CERTS", "SSL_CERTFILE", "SSL_KEYFILE", "STATE_DTYPE",
    "STATE_MEMORY_BYTES", "STATE_READ_DTYPE", "STREAM_INTERVAL", "TF32", "THREADS",
    "WATCHDOG_TIMEOUT",
    // tvq-gateway
    "ALLOWED_ORIGINS", "BODY_TIMEOUT", "HEADER_TIMEOUT", "IDLE_TIMEOUT", "MAX_BODY_BYTES",
    "MAX_BUFFERED_BYTES", "MAX_CONNECTIONS", "MAX_CONNECTIONS_PER_ADDRESS", "MAX_HEADER_BYTES",
    "REFUSAL_TIMEOUT", "SERVER_CONNECTIONS", "SERVER_SSL_CA_CERTS", "SERVER_SSL_CERTFILE",
    "SERVER_SSL_KEYFILE", "SERVER_TLS", "WRITE_TIMEOUT",
    // tvq and tvq-loadtest
    "API_KEY", "SERVER", "TLS",
    // scripts, docker-compose.yml and tests
    "BIN_DIR", "CUDA_ARCHITECTURES", "CUDA_TOOLKIT", "MODEL_CHECK_STEPS", "NODE_PACKAGES", "PYTHON",
    "SERVER_MEMORY", "TEST_CLOCK"};

// "..._PORT_50051_TCP", alone or with more behind it.
bool NamesPortOfService(std::string_view name) {
  const size_t port = name.rfind("PORT_");  // the service's own name may have one
  if (port == name.npos) return false;
  name.remove_prefix(port + 5);
  const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
  name.remove_prefix(digits);
  return digits > 0 &&
         (name.starts_with("_TCP") || name.starts_with("_UDP") || name.starts_with("_SCTP"));
}

// Of a service `tvq` or `tvq-...`; `name` is without the prefix.
bool IsOfService(std::string_view name, std::string_view value) {
  return name.ends_with("SERVICE_HOST") || name.find("SERVICE_PORT") != name.npos ||
         NamesPortOfService(name) || (name.ends_with("PORT") && IsServiceUrl(value));
}

// Nearest takes _ for -.
std::string WithDashes(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', '-');
  return text;
}

std::string Complaint(std::string_view name) {
  std::vector<std::string> known;
  std::transform(std::begin(kKnown), std::end(kKnown), std::back_inserter(known), WithDashes);
  std::string meant = Nearest(name, known);
  std::replace(meant.begin(), meant.end(), '-', '_');
  return std::string(kPrefix)
      .append(name)
      .append(" is set in the environment, and no program of tvq reads it")
      .append(meant.empty() ? "" : "; did you mean " + std::string(kPrefix) + meant + "?");
}

}  // namespace

bool IsServiceUrl(std::string_view value) {
  return value.starts_with("tcp://") || value.starts_with("udp://") || value.starts_with("sctp://");
}

std::vector<std::string> UnknownVariables(const char* const* environment) {
  std::vector<std::string> complaints;
  for (; *environment != nullptr; ++environment) {
    std::string_view name = *environment;
    if (!name.starts_with(kPrefix)) continue;
    name.remove_prefix(kPrefix.size());
    const size_t equals = std::min(name.find('='), name.size());
    const std::string_view value = name.substr(std::min(equals + 1, name.size()));
    name = name.substr(0, equals);
    const bool known = std::find(std::begin(kKnown), std::end(kKnown), name) != std::end(kKnown);
    if (!known && !IsOfService(name, value)) complaints.push_back(Complaint(name));
  }
  std::sort(complaints.begin(), complaints.end());
  return complaints;
}

void WarnOfUnknownVariables(std::string_view program) {
  for (const std::string& unknown : UnknownVariables(environ)) {
    std::cerr << program << ": " << unknown << "\n";
  }
}

}  // namespace tvq
