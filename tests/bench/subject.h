// The model under test and the device it runs on.
#ifndef TVQ_TESTS_BENCH_SUBJECT_H_
#define TVQ_TESTS_BENCH_SUBJECT_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "models/runtime/families/transformer/transformer_config.h"
#include "models/runtime/model.h"
#include "tests/bench/options.h"

namespace tvq::bench {

// The device is declared first because the model's memory goes back to it.
struct Subject {
  std::string name;  // preset or directory
  TransformerConfig config;
  // False: a family whose config has `common` alone. What bytes and operations are counted from is
  // not known then.
  bool known_shape = true;
  std::shared_ptr<Device> device;
  std::unique_ptr<Model> model;
  bool tf32 = false;  // the device may cut factors of prompts' products ("tf32" of MakeDevice)
};

// Names that --preset takes.
std::vector<std::string> PresetNames();

// `enwik8`: the shape of the published enwik8 model, 190 M parameters. `pg19`: that of the PG-19
// model, 1.3 B. `tiny`: for smoke tests.
absl::StatusOr<TransformerConfig> PresetConfig(const std::string& name);

// Its config.json.
nlohmann::json ConfigJson(const TransformerConfig& config);

// The same options in a shape small enough for the reference device: 2 layers, every size capped.
TransformerConfig ScaledDown(TransformerConfig config);

// The subject that the options name, with so many Model::DraftRows.
absl::StatusOr<Subject> OpenSubject(const Options& options, int64_t draft_rows = 0);

// A model of this shape with random weights.
absl::StatusOr<std::unique_ptr<Model>> BuildRandom(const TransformerConfig& config,
                                                   std::shared_ptr<Device> device, DType dtype,
                                                   std::optional<DType> state_dtype,
                                                   const StateReads& reads = {},
                                                   int64_t draft_rows = 0);

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_SUBJECT_H_
