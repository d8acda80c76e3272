#ifndef TVQ_CLIENT_LOADTEST_REPORT_REPORT_H_
#define TVQ_CLIENT_LOADTEST_REPORT_REPORT_H_

#include <array>
#include <string>
#include <vector>

#include "client/loadtest/statistics/summary.h"

namespace tvq::loadtest {

// A run: what was put under load, how, and what each step measured.
struct Report {
  std::string target;  // "gRPC 127.0.0.1:50051"
  std::string server;  // version and device
  std::string model;
  std::string started;  // UTC, RFC 3339
  // What was asked, as the command line has it: ("output-tokens", "64"), ...
  std::vector<std::pair<std::string, std::string>> settings;
  Slo slo;
  std::vector<Summary> steps;
  bool interrupted = false;
};

struct Quantile {
  const char* name;
  double value;
};
// The maximum comes beside them.
inline constexpr std::array<Quantile, 5> kQuantiles = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}, {"p99.9", 0.999}}};

// For people: a block for each step, then, with several, a line for each.
std::string AsTable(const Report& report);
// docs/load-testing.md describes it. Ends with a newline.
std::string AsJson(const Report& report);
// A page with plots that needs nothing from outside.
std::string AsHtml(const Report& report);

// What a reader must know about how latencies of this step count.
std::string LatencyNote(const Summary& summary);
// ", 3 sent again as the kept connection was closed", or nothing.
std::string ReconnectNote(const Summary& summary);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_REPORT_REPORT_H_
