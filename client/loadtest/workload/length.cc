#include "client/loadtest/workload/length.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace tvq::loadtest {
namespace {

constexpr int64_t kMaxLength = 100'000'000;
constexpr double kMaxSigma = 5;

absl::Status Wrong(std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", std::string(text),
                   "\" must be N, uniform:A,B or lognormal:MEDIAN,SIGMA,MAX with 1 <= N, A <= B, "
                   "MEDIAN <= MAX <= ",
                   kMaxLength, " and 0 < SIGMA <= ", kMaxSigma));
}

bool ParseLength(const std::string& text, int64_t* length) {
  return absl::SimpleAtoi(text, length) && *length >= 1 && *length <= kMaxLength;
}

bool ParseSigma(const std::string& text, double* sigma) {
  return absl::SimpleAtod(text, sigma) && *sigma > 0 && *sigma <= kMaxSigma;
}

}  // namespace

LengthDistribution LengthDistribution::Fixed(int64_t length) {
  LengthDistribution result;
  result.text_ = absl::StrCat(length);
  result.min_ = result.max_ = length;
  return result;
}

absl::StatusOr<LengthDistribution> LengthDistribution::Parse(std::string_view text) {
  LengthDistribution result;
  result.text_ = text;
  const size_t colon = text.find(':');
  const std::string_view kind = colon == text.npos ? "fixed" : text.substr(0, colon);
  const std::vector<std::string> numbers =
      absl::StrSplit(std::string(text.substr(colon == text.npos ? 0 : colon + 1)), ',');
  if (kind == "fixed" && numbers.size() == 1) {
    if (!ParseLength(numbers[0], &result.max_)) return Wrong(text);
    result.min_ = result.max_;
  } else if (kind == "uniform" && numbers.size() == 2) {
    result.kind_ = Kind::kUniform;
    if (!ParseLength(numbers[0], &result.min_) || !ParseLength(numbers[1], &result.max_) ||
        result.min_ > result.max_) {
      return Wrong(text);
    }
  } else if (kind == "lognormal" && numbers.size() == 3) {
    result.kind_ = Kind::kLognormal;
    int64_t median = 0;
    if (!ParseLength(numbers[0], &median) || !ParseSigma(numbers[1], &result.sigma_) ||
        !ParseLength(numbers[2], &result.max_) || median > result.max_) {
      return Wrong(text);
    }
    result.median_ = static_cast<double>(median);
  } else {
    return Wrong(text);
  }
  return result;
}

int64_t LengthDistribution::Draw(Random& random) const {
  switch (kind_) {
    case Kind::kFixed:
      return max_;
    case Kind::kUniform:
      return min_ + static_cast<int64_t>(random.Below(max_ - min_ + 1));
    case Kind::kLognormal:
      break;
  }
  const double length = median_ * std::exp(sigma_ * random.Normal());
  return std::llround(std::clamp(length, 1.0, static_cast<double>(max_)));
}

}  // namespace tvq::loadtest
