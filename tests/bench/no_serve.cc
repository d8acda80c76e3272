// Stands in for serve.cc in a build without gRPC.
#include "tests/bench/benches.h"

namespace tvq::bench {

absl::Status BenchServe(Subject&, const Options&, Json&) {
  return absl::UnimplementedError("serve: this build has no gRPC (TVQ_BUILD_SERVER is off)");
}

bool RanAsClient(std::span<char* const>) { return false; }

}  // namespace tvq::bench
