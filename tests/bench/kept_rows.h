// Random weights attend more evenly than trained ones: a skip mass that leaves a trained model a
// third of its rows leaves them nearly all. For times, what counts is the rows.
#ifndef TVQ_TESTS_BENCH_KEPT_ROWS_H_
#define TVQ_TESTS_BENCH_KEPT_ROWS_H_

#include "absl/status/statusor.h"
#include "tests/bench/options.h"

namespace tvq::bench {

// The skip mass at which decode reads about `options.kept_rows` of the rows of a synthetic session
// at the first of `options.contexts`: found by halving, each try with the model loaded anew.
absl::StatusOr<float> SkipMassFor(const Options& options);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_KEPT_ROWS_H_
