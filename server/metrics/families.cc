#include "server/metrics/families.h"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "base/histogram.h"

namespace tvq {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  // A family of which Add makes the metrics.
  void Begin(MetricType type, std::string name, std::string help) {
    families_.push_back({std::move(name), std::move(help), type, {}});
  }

  void Add(double value, Labels labels = {}) {
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    metric.gauge.value = value;
    metric.counter.value = value;
  }

  void Gauge(std::string name, std::string help, double value) {
    Begin(MetricType::Gauge, std::move(name), std::move(help));
    Add(value);
  }

  void Counter(std::string name, std::string help, int64_t value) {
    Begin(MetricType::Counter, std::move(name), std::move(help));
    Add(static_cast<double>(value));
  }

  void Distribution(std::string name, std::string help, const Histogram& histogram) {
    Begin(MetricType::Histogram, std::move(name), std::move(help));
    ClientMetric::Histogram& metric = families_.back().metric.emplace_back().histogram;
    uint64_t below = 0;
    for (size_t i = 0; i < histogram.counts.size(); ++i) {
      below += static_cast<uint64_t>(histogram.counts[i]);
      metric.bucket.push_back({below, i < Histogram::kBounds.size()
                                          ? Histogram::kBounds[i]
                                          : std::numeric_limits<double>::infinity()});
    }
    metric.sample_count = below;
    metric.sample_sum = histogram.sum;
  }

  std::vector<MetricFamily> Take() { return std::move(families_); }

 private:
  std::vector<MetricFamily> families_;
};

void AddServer(const MetricsSnapshot& snapshot, Families& out) {
  out.Begin(MetricType::Gauge, "tvq_build_info", "Always 1; the label says which version runs.");
  out.Add(1, {{"version", snapshot.version}});
  out.Gauge("tvq_start_time_seconds", "When the server started, in seconds since 1970.",
            snapshot.start_time);
  out.Begin(MetricType::Counter, "tvq_grpc_calls_total",
            "Calls that ended, by method and status code.");
  for (const auto& [method, code, count] : snapshot.methods) {
    out.Add(static_cast<double>(count), {{"method", method}, {"code", code}});
  }
  out.Begin(MetricType::Counter, "tvq_requests_rejected_total",
            "Calls that ended otherwise than OK, by reason.");
  for (const auto& [reason, count] : snapshot.rejections) {
    out.Add(static_cast<double>(count), {{"reason", reason}});
  }
  out.Counter(
      "tvq_connections_closed_total",
      "Connections closed for resets or streams beyond their limits, as descriptors were short, or "
      "as too many TLS handshakes were under way.",
      snapshot.closed_connections);
}

void AddModels(const std::vector<ModelStats>& models, Families& out) {
  const struct {
    const char* name;
    const char* help;
    int64_t ModelStats::* value;
  } rows[] = {
      {"tvq_model_bytes_per_session", "Bytes that the state of one session takes.",
       &ModelStats::bytes_per_session},
      {"tvq_model_max_sessions", "Sessions of this model that fit the whole budget.",
       &ModelStats::max_sessions},
      {"tvq_model_sessions_in_use", "States reserved for running requests.",
       &ModelStats::sessions_in_use},
  };
  for (const auto& row : rows) {
    out.Begin(MetricType::Gauge, row.name, row.help);
    for (const ModelStats& model : models) {
      out.Add(static_cast<double>(model.*row.value), {{"model", model.name}});
    }
  }
}

// Of decode steps that may leave rows of values out.
void AddAttention(const std::vector<ModelStats>& models, Families& out) {
  const auto add = [&](const char* name, const char* help, auto ModelStats::* value) {
    out.Begin(MetricType::Counter, name, help);
    for (const ModelStats& model : models) {
      out.Add(static_cast<double>(model.*value), {{"model", model.name}});
    }
  };
  add("tvq_attention_queries_total", "Queries of every layer and head.",
      &ModelStats::attention_queries);
  add("tvq_attention_skipped_mass_total", "Shares of those queries' softmax that were left out.",
      &ModelStats::attention_skipped_mass);
  add("tvq_attention_rows_total", "Rows of values that had a weight, of every key/value head.",
      &ModelStats::attention_rows);
  add("tvq_attention_rows_read_total", "Rows of values that were read, of those with a weight.",
      &ModelStats::attention_rows_read);
}

void AddRequests(const EngineStats& engine, Families& out) {
  out.Gauge("tvq_num_requests_running", "Requests that were admitted and have their states.",
            static_cast<double>(engine.requests_running));
  out.Gauge("tvq_num_requests_waiting", "Requests in the queue.",
            static_cast<double>(engine.requests_waiting));
  out.Gauge("tvq_num_sequences_running",
            "Sequences that were admitted: n of a request with n samples.",
            static_cast<double>(engine.sequences_running));
  out.Begin(MetricType::Counter, "tvq_requests_total", "Accepted requests that ended, by how.");
  out.Add(static_cast<double>(engine.requests_finished), {{"outcome", "finished"}});
  out.Add(static_cast<double>(engine.requests_cancelled), {{"outcome", "cancelled"}});
  out.Add(static_cast<double>(engine.requests_failed), {{"outcome", "failed"}});
  out.Distribution("tvq_request_queue_time_seconds", "From acceptance until a request starts.",
                   engine.queue_time);
  out.Distribution("tvq_time_to_first_token_seconds", "From acceptance until the first token.",
                   engine.time_to_first_token);
  out.Distribution("tvq_inter_token_latency_seconds", "Between two tokens of a sample.",
                   engine.inter_token_latency);
  out.Distribution("tvq_e2e_request_latency_seconds", "From acceptance until the last token.",
                   engine.e2e_latency);
}

void AddWork(const EngineStats& engine, double step_seconds, Families& out) {
  out.Counter("tvq_prompt_tokens_total", "Prompt tokens of requests that started.",
              engine.prompt_tokens);
  out.Counter("tvq_prefill_tokens_computed_total", "Prompt tokens that were computed.",
              engine.prefill_tokens_computed);
  out.Counter("tvq_prefill_tokens_reused_total", "Tokens that a kept state spared computing.",
              engine.prefill_tokens_reused);
  out.Counter("tvq_generation_tokens_total", "Tokens generated.", engine.generation_tokens);
  out.Counter("tvq_draft_tokens_total", "Tokens that steps fed ahead of being sampled.",
              engine.draft_tokens);
  out.Counter("tvq_draft_tokens_accepted_total",
              "Tokens fed ahead that were sampled, too, and did not end the sample.",
              engine.draft_tokens_accepted);
  out.Counter("tvq_engine_steps_total", "Steps of the engine.", engine.steps);
  out.Gauge("tvq_device_healthy", "0 once the device that computes has failed for good; else 1.",
            engine.healthy ? 1 : 0);
  out.Gauge("tvq_engine_step_seconds",
            "How long the step computed now has been running; 0 while the engine waits for work.",
            step_seconds);
  out.Gauge("tvq_running_state_bytes",
            "Bytes of state that running sequences hold and do not share.",
            static_cast<double>(engine.state_bytes));
  out.Gauge("tvq_running_state_reserved_bytes", "Bytes of state promised to running requests.",
            static_cast<double>(engine.state_bytes_reserved));
  out.Gauge("tvq_left_state_bytes",
            "Bytes of states that ended requests left, until a client or a session has them.",
            static_cast<double>(engine.state_bytes_left));
  out.Gauge("tvq_running_state_budget_bytes", "Bytes that all states may take where they compute.",
            static_cast<double>(engine.state_bytes_budget));
}

void AddTiers(const SessionStats& sessions, Families& out) {
  const struct {
    const char* name;
    const char* help;
    int64_t TierStats::* value;
  } rows[] = {
      {"tvq_sessions", "Sessions, by where their committed state lies.", &TierStats::sessions},
      {"tvq_state_bytes",
       "Bytes of kept states: of sessions, marks and prefixes, and what states share.",
       &TierStats::state_bytes},
      {"tvq_state_budget_bytes", "Bytes that kept states may take.", &TierStats::budget_bytes},
  };
  for (const auto& row : rows) {
    out.Begin(MetricType::Gauge, row.name, row.help);
    out.Add(static_cast<double>(sessions.device.*row.value), {{"tier", "device"}});
    out.Add(static_cast<double>(sessions.host.*row.value), {{"tier", "host"}});
    out.Add(static_cast<double>(sessions.durable.*row.value), {{"tier", "durable"}});
  }
}

void AddSessions(const SessionStats& sessions, Families& out) {
  AddTiers(sessions, out);
  out.Gauge("tvq_sessions_leased", "Sessions that a call works on.",
            static_cast<double>(sessions.leased));
  out.Gauge("tvq_sessions_unsaved", "Sessions whose newest version is not on the durable tier.",
            static_cast<double>(sessions.unsaved));
  out.Counter("tvq_sessions_created_total", "Sessions created.", sessions.created);
  out.Counter("tvq_sessions_deleted_total", "Sessions deleted by a call.", sessions.deleted);
  out.Counter("tvq_sessions_expired_total", "Sessions whose time to live ended.", sessions.expired);
  out.Counter("tvq_sessions_corrupt_total", "Stored sessions found corrupt.", sessions.corrupt);
  out.Counter("tvq_session_versions_lost_total",
              "Versions not saved when another server took their session over.", sessions.lost);
  out.Counter("tvq_session_commits_total", "Calls that made a new version.", sessions.commits);
  out.Counter("tvq_session_saves_total", "Versions written to the durable tier.", sessions.saves);
  out.Counter("tvq_session_save_failures_total", "Writes to the durable tier that failed.",
              sessions.save_failures);
  out.Counter("tvq_state_restores_total", "States brought back to the device.", sessions.restores);
  out.Distribution("tvq_state_restore_seconds", "Until a state that was elsewhere is back.",
                   sessions.state_restore);
  out.Distribution("tvq_state_save_seconds", "To write a session to the durable tier.",
                   sessions.state_save);
  out.Gauge("tvq_prefixes", "States of common prompts that are kept.",
            static_cast<double>(sessions.prefixes));
  out.Counter("tvq_prefix_cache_hits_total", "Prompts that began with a kept prefix.",
              sessions.prefix_hits);
  out.Counter("tvq_prefix_cache_misses_total", "Prompts that began with none.",
              sessions.prefix_misses);
  const StoredPrefixStats& stored = sessions.stored_prefixes;
  out.Gauge("tvq_stored_prefixes", "States of common prompts on the durable tier.",
            static_cast<double>(stored.prefixes));
  out.Gauge("tvq_stored_prefix_bytes", "Bytes that these take there.",
            static_cast<double>(stored.bytes));
  out.Gauge("tvq_stored_prefix_budget_bytes", "Bytes that they may take there.",
            static_cast<double>(stored.budget_bytes));
  out.Counter("tvq_stored_prefix_hits_total", "Prompts whose kept prefix was read there.",
              stored.hits);
  out.Counter("tvq_stored_prefix_writes_total", "States of common prompts that were stored.",
              stored.writes);
  out.Counter("tvq_stored_prefix_drops_total",
              "Those that were not: too many waited, there was no room, or the tier was away.",
              stored.drops);
  out.Counter("tvq_stored_prefix_evictions_total", "Those that were removed to make room.",
              stored.evictions);
  out.Counter("tvq_stored_prefix_refused_total",
              "Those that were damaged or of something else, and were removed.", stored.refused);
}

}  // namespace

std::vector<MetricFamily> ToFamilies(const MetricsSnapshot& snapshot) {
  Families out;
  AddServer(snapshot, out);
  AddModels(snapshot.models, out);
  AddAttention(snapshot.models, out);
  AddRequests(snapshot.engine, out);
  AddWork(snapshot.engine, snapshot.step_seconds, out);
  if (snapshot.sessions) AddSessions(*snapshot.sessions, out);
  return out.Take();
}

}  // namespace tvq
