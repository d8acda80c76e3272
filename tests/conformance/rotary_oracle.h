// The mathematics of the families with rotary positions written down once more (oracle.h).
#ifndef TVQ_TESTS_CONFORMANCE_ROTARY_ORACLE_H_
#define TVQ_TESTS_CONFORMANCE_ROTARY_ORACLE_H_

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "tests/conformance/oracle.h"

namespace tvq::conformance {

std::string RotaryJson(const Shape& shape);

using OracleTensors = std::map<std::string, std::vector<double>>;

// Calls load(name, shape, whether it is rounded as matrices are, or as those of the vocabulary).
enum class Rounded : uint8_t { kNot, kMatrix, kVocabulary };
void ForEachRotaryTensor(
    const Shape& shape,
    const std::function<void(const std::string&, std::vector<int64_t>, Rounded)>& load);

// Logits of every token's place; of a converted model codes, too.
std::vector<std::vector<double>> RotaryLogits(const Shape& shape, const OracleTensors& tensors,
                                              const std::vector<int32_t>& tokens, OracleRun& run);

}  // namespace tvq::conformance

#endif  // TVQ_TESTS_CONFORMANCE_ROTARY_ORACLE_H_
