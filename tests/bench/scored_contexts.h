// What `tvq-bench reads` scores: a text, or many short examples, each in a context of its own.
#ifndef TVQ_TESTS_BENCH_SCORED_CONTEXTS_H_
#define TVQ_TESTS_BENCH_SCORED_CONTEXTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/model.h"
#include "tests/bench/options.h"

namespace tvq::bench {

struct ScoredContext {
  std::vector<int32_t> ids;
  size_t given = 1;  // the first so many are not scored; at least 1
};

// The file that options.text, pairs or images names, as `tvq score --allow-unknown` takes it: a
// text is one context of options.tokens + 1 ids at most, a pair its first text and a newline,
// given, and its second, an image (of an idx file of grey bytes) its pixels behind the
// end-of-sequence id, if the model has one. Of the latter two the first options.examples, or all
// for 0. NOT_FOUND for a file that cannot be read, INVALID_ARGUMENT, naming it, for one that is of
// another form or has nothing to score.
absl::StatusOr<std::vector<ScoredContext>> ReadContexts(const Model& model, const Options& options);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_SCORED_CONTEXTS_H_
