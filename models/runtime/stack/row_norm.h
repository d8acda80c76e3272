// A norm of rows with the gain, and possibly the bias, that the checkpoint has for it.
#ifndef TVQ_MODELS_RUNTIME_STACK_ROW_NORM_H_
#define TVQ_MODELS_RUNTIME_STACK_ROW_NORM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "kernels/ops/norm_rows.h"
#include "models/runtime/stack/weight_loader.h"

namespace tvq {

class RowNorm {
 public:
  struct Config {
    Norm norm = Norm::kRms;
    int64_t width = 0;
    float epsilon = kOwnEpsilon;
    float gain_offset = 0;  // is added to the gains that the checkpoint has
    bool bias = false;
  };

  explicit RowNorm(const Config& config) : config_(config) {}

  // From the tensors `name` + ".weight" and ".bias".
  void Load(const std::string& name, WeightLoader& loader) {
    gain_ = loader.Upload(loader.ReadGain(name + ".weight", config_.width, config_.gain_offset));
    if (config_.bias) bias_ = loader.Upload(loader.Read(name + ".bias", {config_.width}));
  }

  // out may be x itself.
  absl::Status Apply(Device& device, Matrix<const float> x, Matrix<float> out) const {
    NormRowsArgs args;
    args.norm = config_.norm;
    args.x = x;
    args.gain = VectorOf(gain_, config_.width);
    if (config_.bias) args.bias = VectorOf(bias_, config_.width);
    args.out = out;
    args.epsilon = config_.epsilon;
    return NormRows(device, args);
  }

 private:
  const Config config_;
  Buffer gain_, bias_;
};

}  // namespace tvq

#endif  // TVQ_MODELS_RUNTIME_STACK_ROW_NORM_H_
