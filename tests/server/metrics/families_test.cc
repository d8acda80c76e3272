#include "server/metrics/families.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <prometheus/check_names.h>
#include <prometheus/text_serializer.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace tvq {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Text(const MetricsSnapshot& snapshot) {
  return prometheus::TextSerializer().Serialize(ToFamilies(snapshot));
}

MetricsSnapshot WithSessions() {
  MetricsSnapshot snapshot;
  snapshot.sessions.emplace();
  return snapshot;
}

TEST(FamiliesTest, TakesEachNumberToItsName) {
  MetricsSnapshot snapshot = WithSessions();
  snapshot.version = "1.2.3";
  snapshot.engine.requests_running = 3;
  snapshot.engine.requests_waiting = 4;
  snapshot.engine.requests_cancelled = 5;
  snapshot.engine.generation_tokens = 6'000'000'000;
  snapshot.engine.prefill_tokens_reused = 7;
  snapshot.engine.state_bytes_left = 21;
  snapshot.engine.draft_tokens = 19;
  snapshot.engine.draft_tokens_accepted = 20;
  snapshot.sessions->durable.sessions = 8;
  snapshot.sessions->host.state_bytes = 9;
  snapshot.sessions->prefix_hits = 10;
  snapshot.sessions->stored_prefixes = {.bytes = 4096, .hits = 3, .evictions = 2};
  snapshot.models = {{"novels", 11, 12, 13, 16, 0.125, 17, 18}};
  snapshot.methods = {{"GenerationService/Generate", "OK", 14}};
  snapshot.rejections = {{"RATE_EXCEEDED", 15}};
  const std::string text = Text(snapshot);
  for (const char* const line :
       {"tvq_build_info{version=\"1.2.3\"} 1\n",
        "tvq_num_requests_running 3\n",
        "tvq_num_requests_waiting 4\n",
        "tvq_requests_total{outcome=\"cancelled\"} 5\n",
        "tvq_generation_tokens_total 6000000000\n",
        "tvq_prefill_tokens_reused_total 7\n",
        "tvq_left_state_bytes 21\n",
        "tvq_draft_tokens_total 19\n",
        "tvq_draft_tokens_accepted_total 20\n",
        "tvq_sessions{tier=\"durable\"} 8\n",
        "tvq_state_bytes{tier=\"host\"} 9\n",
        "tvq_prefix_cache_hits_total 10\n",
        "tvq_stored_prefix_bytes 4096\n",
        "tvq_stored_prefix_hits_total 3\n",
        "tvq_stored_prefix_evictions_total 2\n",
        "tvq_model_bytes_per_session{model=\"novels\"} 11\n",
        "tvq_model_max_sessions{model=\"novels\"} 12\n",
        "tvq_model_sessions_in_use{model=\"novels\"} 13\n",
        "tvq_attention_queries_total{model=\"novels\"} 16\n",
        "tvq_attention_skipped_mass_total{model=\"novels\"} 0.125\n",
        "tvq_attention_rows_total{model=\"novels\"} 17\n",
        "tvq_attention_rows_read_total{model=\"novels\"} 18\n",
        "tvq_grpc_calls_total{method=\"GenerationService/Generate\",code=\"OK\"} 14\n",
        "tvq_requests_rejected_total{reason=\"RATE_EXCEEDED\"} 15\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\n") + line));
  }
}

TEST(FamiliesTest, BucketsCountAllThatIsNotLonger) {
  MetricsSnapshot snapshot;
  snapshot.engine.time_to_first_token.Add(0.0001);  // bounds are included
  snapshot.engine.time_to_first_token.Add(0.75);
  snapshot.engine.time_to_first_token.Add(0.75);
  snapshot.engine.time_to_first_token.Add(10'000);
  const std::string text = Text(snapshot);
  for (const char* const line : {"_bucket{le=\"0.0001\"} 1\n", "_bucket{le=\"0.5\"} 1\n",
                                 "_bucket{le=\"1\"} 3\n", "_bucket{le=\"1800\"} 3\n",
                                 "_bucket{le=\"+Inf\"} 4\n", "_count 4\n", "_sum 10001.5001\n"}) {
    EXPECT_THAT(text, HasSubstr(std::string("\ntvq_time_to_first_token_seconds") + line));
  }
}

TEST(FamiliesTest, WithoutSessionsThereAreNoMetricsOfThem) {
  EXPECT_THAT(Text({}), Not(HasSubstr("tvq_sessions")));
  EXPECT_THAT(Text(WithSessions()), HasSubstr("tvq_sessions"));
}

TEST(FamiliesTest, NamesAreUniqueAndTellTheirType) {
  std::set<std::string> names;
  for (const prometheus::MetricFamily& family : ToFamilies(WithSessions())) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_TRUE(prometheus::CheckMetricName(family.name)) << family.name;
    EXPECT_THAT(family.name, testing::StartsWith("tvq_"));
    EXPECT_FALSE(family.help.empty()) << family.name;
    EXPECT_EQ(family.type == prometheus::MetricType::Counter, family.name.ends_with("_total"))
        << family.name;
    if (family.type == prometheus::MetricType::Histogram) {
      EXPECT_THAT(family.name, testing::EndsWith("_seconds"));
    }
  }
}

// Tests run in the root of the sources.
TEST(FamiliesTest, TheTableOfMetricsIsComplete) {
  std::ifstream file("docs/metrics.md");
  ASSERT_TRUE(file.is_open());
  const std::string table{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  for (const prometheus::MetricFamily& family : ToFamilies(WithSessions())) {
    EXPECT_THAT(table, HasSubstr("`" + family.name + "`"));
  }
}

}  // namespace
}  // namespace tvq
