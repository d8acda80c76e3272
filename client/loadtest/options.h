// The command line of tvq-loadtest.
#ifndef TVQ_CLIENT_LOADTEST_OPTIONS_H_
#define TVQ_CLIENT_LOADTEST_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "client/cpp/connect.h"
#include "client/loadtest/driver/driver.h"
#include "client/loadtest/driver/target.h"
#include "client/loadtest/driver/workload.h"
#include "client/loadtest/http/http_target.h"
#include "client/loadtest/statistics/summary.h"

namespace tvq::loadtest {

// How many requests may fail: so many, or this fraction of those that were due.
struct MaxErrors {
  int64_t count = 0;
  std::optional<double> fraction;
};

struct Options {
  client::ConnectOptions connect;  // for gRPC
  int connections = 1;
  std::optional<HttpOptions> http;  // instead of gRPC
  RequestSettings request;

  std::vector<Step> steps;
  std::vector<std::string> labels;  // of the steps
  Limits limits;
  Workload workload;  // prompts are not set: they depend on the model
  std::optional<LengthDistribution> prompt_tokens;
  std::string prompt_file;

  Slo slo;
  MaxErrors max_errors;
  std::string json_file, html_file;
  bool progress = true;
  // What was asked, for the report.
  std::vector<std::pair<std::string, std::string>> settings;
};

// When there is nothing to run, because of --help or an error that was printed to stderr, returns
// nothing and sets the exit code: 0, or 2 for an error.
std::optional<Options> ParseOptions(int argc, char** argv, int* exit_code);

// "20", "5,10,20", "10..50" (a ramp) or several of these: requests per second.
absl::StatusOr<std::vector<Rate>> ParseRates(std::string_view text);
// "8" or "1,2,4".
absl::StatusOr<std::vector<int64_t>> ParseUsers(std::string_view text);
// "10" or "1%".
absl::StatusOr<MaxErrors> ParseMaxErrors(std::string_view text);

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_OPTIONS_H_
