// What every bench reports the same way: the subject, the checks, the JSON file.
#ifndef TVQ_TESTS_BENCH_REPORT_H_
#define TVQ_TESTS_BENCH_REPORT_H_

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tests/bench/options.h"
#include "tests/bench/profile.h"
#include "tests/bench/subject.h"
#include "tests/bench/validate.h"

namespace tvq::bench {

using Json = nlohmann::ordered_json;

// Prints the command line and the machine, and returns the report's head. `bench` is its name.
Json StartReport(const std::string& bench, const Options& options, const Device& device);
// The same with the subject.
Json StartReport(const std::string& bench, const Options& options, const Subject& subject);

// Runs and prints the checks and adds them to the report; FAILED_PRECONDITION when one fails.
absl::Status ValidateInto(Subject& subject, Json& report);

// What ops read and how fast memory is, where that is known.
struct OpSpeed {
  std::function<int64_t(const std::string& op)> bytes;  // a unit; 0: not counted
  double ceiling = 0;                                   // GB/s
};

// Prints milliseconds per op and `unit` ("step", "chunk"), of which there were `count`, largest
// first, and adds them to the report.
void ReportOpTimes(std::vector<OpTime> times, const std::string& unit, int64_t count, Json& report,
                   const OpSpeed& speed = {});

// Writes the report to `path`; nothing for an empty path.
absl::Status WriteReport(const Json& report, const std::string& path);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_REPORT_H_
