#include "models/runtime/layers/attention/ring/far_angles_layer.h"

#include <cmath>

namespace tvq {

void FarAnglesLayer::Load(WeightLoader& loader) {
  const auto width = static_cast<size_t>(this->width());
  const size_t half = width / 2;
  std::vector<float> table(static_cast<size_t>(rows_) * width), sink(width);
  for (size_t i = 0; i < half; ++i) {
    const double frequency = frequencies_[i];
    double cosines = 0, sines = 0, weights = 0;
    for (size_t row = 0; row < static_cast<size_t>(rows_); ++row) {
      const double distance = static_cast<double>(ring_) + static_cast<double>(row);
      cosines += std::cos(distance * frequency) / distance;
      sines += std::sin(distance * frequency) / distance;
      weights += 1 / distance;
      table[row * width + i] = static_cast<float>(cosines / weights);
      table[row * width + half + i] = static_cast<float>(sines / weights);
    }
    const double angle = static_cast<double>(ring_) * frequency;
    sink[i] = static_cast<float>(std::cos(angle));
    sink[half + i] = static_cast<float>(std::sin(angle));
  }
  table_ = loader.Upload(table);
  sink_angles_ = loader.Upload(sink);
}

}  // namespace tvq
