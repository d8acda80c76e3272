// Is what is about to be timed correct?
#ifndef TVQ_TESTS_BENCH_VALIDATE_H_
#define TVQ_TESTS_BENCH_VALIDATE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tests/bench/subject.h"

namespace tvq::bench {

struct Check {
  std::string what;
  bool ok = false;
  double found = 0;  // the difference that was found
  double bound = 0;  // the largest that is right
};

// 1. The subject's options in a small shape, with random weights: decode on the subject's device
//    against the reference device in float32, codes forced. Where the shape is known.
// 2. The subject: tokens prefilled against the same tokens decoded, codes forced.
// 3. The subject: three sessions decoded together against each alone, bit for bit.
// Non-finite log-probabilities fail the check that meets them.
absl::StatusOr<std::vector<Check>> Validate(Subject& subject);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_VALIDATE_H_
