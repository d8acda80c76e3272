#ifndef TVQ_CLIENT_LOADTEST_WORKLOAD_LENGTH_H_
#define TVQ_CLIENT_LOADTEST_WORKLOAD_LENGTH_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "client/loadtest/workload/random.h"

namespace tvq::loadtest {

// How long something is: tokens of a prompt or an output, turns of a conversation. At least 1.
class LengthDistribution {
 public:
  // "N", "uniform:A,B" (both ends included) or "lognormal:MEDIAN,SIGMA,MAX", sigma being the
  // standard deviation of the logarithm; draws above MAX become MAX. INVALID_ARGUMENT says what is
  // wrong.
  static absl::StatusOr<LengthDistribution> Parse(std::string_view text);
  static LengthDistribution Fixed(int64_t length);

  int64_t Draw(Random& random) const;
  int64_t max() const { return max_; }
  bool fixed() const { return kind_ == Kind::kFixed; }
  // As Parse takes it.
  const std::string& text() const { return text_; }

 private:
  enum class Kind { kFixed, kUniform, kLognormal };
  LengthDistribution() = default;

  Kind kind_ = Kind::kFixed;
  std::string text_;
  int64_t min_ = 1, max_ = 1;
  double median_ = 0, sigma_ = 0;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_WORKLOAD_LENGTH_H_
