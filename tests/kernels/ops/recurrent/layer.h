// What the tests of the recurrent ops know of an op: one call of it, and its formula.
#ifndef TVQ_TESTS_KERNELS_OPS_RECURRENT_LAYER_H_
#define TVQ_TESTS_KERNELS_OPS_RECURRENT_LAYER_H_

#include <bit>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "kernels/ops/recurrent/recurrence.h"
#include "tests/kernels/ops/op_testing.h"
#include "tests/kernels/ops/recurrent/bounded.h"

namespace tvq {

inline std::vector<uint32_t> Bits(std::span<const float> values) {
  std::vector<uint32_t> bits;
  for (const float value : values) bits.push_back(std::bit_cast<uint32_t>(value));
  return bits;
}

// What a state holds.
struct StateValues {
  std::vector<float> matrix, inputs;

  bool operator==(const StateValues& other) const {
    return Bits(matrix) == Bits(other.matrix) && Bits(inputs) == Bits(other.inputs);
  }
};

// A row's place among the positions that a layer has inputs for.
using Rows = std::vector<int64_t>;
inline Rows Consecutive(int64_t first, int64_t count) {
  Rows rows(static_cast<size_t>(count));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// One op, with shapes, weights and the inputs of some positions.
struct Layer {
  std::string name;
  int64_t tokens = 0;
  int64_t matrix = 0, inputs = 0;  // numbers of a state
  int64_t out = 0;                 // numbers of a row

  Layer(std::string op, int64_t positions) : name(std::move(op)), tokens(positions) {}
  virtual ~Layer() = default;
  Layer(const Layer&) = delete;
  Layer& operator=(const Layer&) = delete;

  // Calls the op for rows; what comes out, row by row.
  virtual std::vector<float> Run(Device& device, const RecurrentRows& sessions,
                                 const Rows& rows) const = 0;

  // What position n makes of a state, by the op's formula.
  struct Step {
    std::vector<Bounded> out, matrix;
    std::vector<float> inputs;
  };
  virtual Step Expect(int64_t n, const StateValues& before) const = 0;

  StateValues NewState() const {
    return {std::vector<float>(static_cast<size_t>(matrix)),
            std::vector<float>(static_cast<size_t>(inputs))};
  }
  StateValues RandomState(uint32_t seed) const {
    return {RandomFloats(matrix, seed), RandomFloats(inputs, seed + 1)};
  }
};

// Numbers [tokens, width] of which a call takes rows.
struct RowValues {
  std::vector<float> all;
  int64_t width = 0;

  RowValues() = default;
  RowValues(std::vector<float> values, int64_t tokens)
      : all(std::move(values)), width(static_cast<int64_t>(all.size()) / tokens) {}

  const float* row(int64_t n) const { return all.data() + n * width; }
  float* row(int64_t n) { return all.data() + n * width; }
  DeviceArray<float> Send(Device& device, const Rows& rows) const {
    std::vector<float> taken;
    for (const int64_t n : rows) taken.insert(taken.end(), row(n), row(n) + width);
    return {device, taken};
  }
};

inline DeviceArray<float> Unwritten(Device& device, int64_t count) {
  return {device, std::vector<float>(static_cast<size_t>(count), NAN)};
}

// A state on a device, and where steps keep what they change.
class OwnedState {
 public:
  OwnedState(Device& device, const StateValues& values)
      : matrix_(device, values.matrix),
        inputs_(device, values.inputs),
        has_matrix_(!values.matrix.empty()) {}

  RecurrentState View() const { return {has_matrix_ ? matrix_.data() : nullptr, inputs_.data()}; }
  // The same, and `kept` is where a step copies what it is about to change.
  RecurrentState Keeping(const OwnedState& kept) const {
    RecurrentState view = View();
    view.kept_matrix = kept.View().matrix;
    view.kept_inputs = kept.inputs_.data();
    return view;
  }
  StateValues Read() const { return {matrix_.Read(), inputs_.Read()}; }

 private:
  DeviceArray<float> matrix_, inputs_;
  bool has_matrix_;
};

// A row for each of `states`, which may be states of no session.
inline std::vector<float> Decode(Device& device, const Layer& layer,
                                 const std::vector<RecurrentState>& states, const Rows& rows) {
  const DeviceArray<RecurrentState> sent(device, states);
  return layer.Run(device, {{sent.data(), {static_cast<int64_t>(states.size())}}, {}}, rows);
}
inline std::vector<float> Prefill(Device& device, const Layer& layer, const OwnedState& state,
                                  const Rows& rows) {
  return layer.Run(device, {{}, state.View()}, rows);
}

}  // namespace tvq

#endif  // TVQ_TESTS_KERNELS_OPS_RECURRENT_LAYER_H_
