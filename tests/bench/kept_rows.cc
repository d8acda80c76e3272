#include "tests/bench/kept_rows.h"

#include <cmath>
#include <cstdio>

#include "tests/bench/sessions.h"
#include "tests/bench/subject.h"

namespace tvq::bench {
namespace {

constexpr double kNearEnough = 0.01;  // of the rows
constexpr int kMostTries = 12;
constexpr int kSteps = 4;

absl::StatusOr<double> RowsRead(Options options, float skip_mass) {
  options.reads.skip_mass = skip_mass;
  absl::StatusOr<Subject> subject = OpenSubject(options);
  if (!subject.ok()) return subject.status();
  absl::StatusOr<Sessions> sessions = Sessions::Create(*subject->model, *subject->device, 1);
  if (!sessions.ok()) return sessions.status();
  absl::Status s = sessions->Synthesize(options.contexts.front());
  for (int i = 0; s.ok() && i < kSteps; ++i) s = sessions->Step();
  if (!s.ok()) return s;
  const StateReadTotals reads = ReadTotals(*subject->model);
  return static_cast<double>(reads.rows_read) / static_cast<double>(reads.rows);
}

}  // namespace

absl::StatusOr<float> SkipMassFor(const Options& options) {
  float least = 0, most = 1, middle = 0.5F;
  for (int i = 0; i < kMostTries; ++i) {
    const absl::StatusOr<double> rows = RowsRead(options, middle);
    if (!rows.ok()) return rows.status();
    if (std::abs(*rows - options.kept_rows) < kNearEnough) break;
    (*rows > options.kept_rows ? least : most) = middle;
    middle = (least + most) / 2;
  }
  std::printf("skip mass %g: chosen so that about %.0f%% of the rows are read\n",
              static_cast<double>(middle), 100 * options.kept_rows);
  return middle;
}

}  // namespace tvq::bench
