// The benches. Each prints a table and fills in the report that StartReport began; the checks have
// passed before.
#ifndef TVQ_TESTS_BENCH_BENCHES_H_
#define TVQ_TESTS_BENCH_BENCHES_H_

#include <span>

#include "absl/status/status.h"
#include "tests/bench/options.h"
#include "tests/bench/report.h"
#include "tests/bench/subject.h"

namespace tvq::bench {

// Time per token of every batch size at every context length, beside the bytes a step reads and
// the speed at which memory could have been read at that moment.
absl::Status BenchDecode(Subject& subject, const Options& options, Json& report);

// `options.tokens` tokens in one session: does the process grow?
absl::Status BenchGrowth(Subject& subject, const Options& options, Json& report);

// Tokens per second of a prompt at every context length, beside decode's, and how near that is to
// the rate at which the device multiplies matrices.
absl::Status BenchPrefill(Subject& subject, const Options& options, Json& report);

// Time to the first token of a session that comes back from disk, against prefilling its context.
absl::Status BenchRestore(Subject& subject, const Options& options, Json& report);

// Bits per token of a text and tokens per second, by what decode reads of states: exact values or
// int8, and for every skip mass.
absl::Status BenchReads(Subject& subject, const Options& options, Json& report);

// The same requests to the model alone and through the engine, `options.batches[0]` together.
absl::Status BenchEngine(Subject& subject, const Options& options, Json& report);

// The same, and through gRPC. UNIMPLEMENTED in a build without gRPC.
absl::Status BenchServe(Subject& subject, const Options& options, Json& report);

// Whether the program was started as the client of BenchServe, and has been that; `words` are what
// stands behind its name.
bool RanAsClient(std::span<char* const> words);

// Milliseconds of a step that feeds one session several tokens, against one that feeds it one; and
// of a token that the engine generates with drafts, against one without them.
absl::Status BenchDrafts(Subject& subject, const Options& options, Json& report);

// Seconds to load a directory's weights, or a preset's stored in `options.stored`, as each of
// `options.dtypes`. Makes its own report and checks.
absl::Status BenchLoad(const Options& options);

// Models of one size that differ in their attention alone: images a second and milliseconds a
// token, with a cache and without. Makes its own report and checks.
absl::Status BenchFamilies(const Options& options);

// Microseconds in which a grammar finds the tokens that may be next, for `options.rounds` outputs
// of each of some JSON schemas, in a random vocabulary. Makes its own report and checks.
absl::Status BenchMasks(const Options& options);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_BENCHES_H_
