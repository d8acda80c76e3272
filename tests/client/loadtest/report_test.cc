#include "client/loadtest/report/report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"

namespace tvq::loadtest {
namespace {

using testing::HasSubstr;
using testing::Not;

Report Example() {
  Summary step{.label = "rate 5/s", .load = 5, .open_loop = true, .window = 10, .requests = 3};
  step.ok = 2;
  step.failed = 1;
  step.series.resize(10);
  for (int ms = 1; ms <= 1000; ++ms) step.ttft.Record(ms * kMillisecond);
  step.e2e.Record(2 * kSecond);
  FailureStats& stats = step.failures["429"];
  stats = {.requests = 1, .attempts = 1, .with_retry_after = 1, .example = "<full> & \xff"};
  stats.latency.Record(kMillisecond);
  return {.target = "gRPC 127.0.0.1:1",
          .server = "tvq-server",
          .model = "m",
          .settings = {{"rate", "5"}},
          .slo = {.ttft = kSecond},
          .steps = {step, step}};
}

TEST(Report, JsonHasTheFigures) {
  const auto json = nlohmann::json::parse(AsJson(Example()));
  ASSERT_EQ(json["steps"].size(), 2);
  const auto& step = json["steps"][0];
  EXPECT_EQ(step["ok"], 2);
  EXPECT_NEAR(step["latency"]["ttft"]["p50"].get<double>(), 0.5, 0.5 * Histogram::kRelativeError);
  EXPECT_NEAR(step["latency"]["ttft"]["p99.9"].get<double>(), 0.999, Histogram::kRelativeError);
  EXPECT_EQ(step["latency"]["ttft"]["max"], 1.0);
  EXPECT_EQ(step["failures"]["429"]["with_retry_after"], 1);
  EXPECT_EQ(json["slo"]["ttft"], 1.0);
  EXPECT_TRUE(json["slo"]["itl"].is_null());
  EXPECT_EQ(json["settings"]["rate"], "5");
  // A distribution function rises to 1.
  double last_value = 0, last_fraction = 0;
  for (const auto& point : step["cdf"]["ttft"]) {
    EXPECT_GT(point[0].get<double>(), last_value);
    EXPECT_GT(point[1].get<double>(), last_fraction);
    last_value = point[0], last_fraction = point[1];
  }
  EXPECT_EQ(last_fraction, 1.0);
}

TEST(Report, TableSaysWhatKindOfLoopItWas) {
  Report report = Example();
  EXPECT_THAT(AsTable(report), HasSubstr("count from when a request was due"));
  EXPECT_THAT(AsTable(report), HasSubstr("429"));
  report.steps[0].open_loop = report.steps[1].open_loop = false;
  EXPECT_THAT(AsTable(report), HasSubstr("while the server stalls no request is sent"));
}

TEST(Report, HtmlNeedsNothingFromOutside) {
  const std::string html = AsHtml(Example());
  EXPECT_THAT(html, HasSubstr("<svg"));
  for (const char* outside : {"src=", "href=", "url(", "@import", "<script"}) {
    EXPECT_THAT(html, Not(HasSubstr(outside)));
  }
  EXPECT_THAT(html, HasSubstr("Over the load"));
  for (int i = 0; i < 8; ++i) {  // a curve without a colour cannot be seen
    EXPECT_THAT(html, HasSubstr(absl::StrCat("svg .c", i, "{stroke:var(--c", i, ")}")));
    EXPECT_THAT(html, HasSubstr(absl::StrCat("--c", i, ":#")));
  }
  EXPECT_THAT(html, Not(HasSubstr("<full>")));
}

TEST(Report, AnEmptyStepIsNoTrouble) {
  Report report;
  report.steps.emplace_back();
  EXPECT_THAT(AsTable(report), Not(HasSubstr("nan")));
  EXPECT_THAT(AsHtml(report), Not(HasSubstr("nan")));
  EXPECT_FALSE(nlohmann::json::parse(AsJson(report)).empty());
}

}  // namespace
}  // namespace tvq::loadtest
