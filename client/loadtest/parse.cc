#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "client/loadtest/options.h"

namespace tvq::loadtest {
namespace {

constexpr double kMaxRate = 1e6;  // per second
constexpr int64_t kMaxUsers = 50'000;
constexpr size_t kMaxSteps = 100;

std::vector<std::string> Items(std::string_view text) {
  return absl::StrSplit(std::string(text), ',');
}

absl::Status Wrong(std::string_view text, std::string_view right) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", std::string(text), "\" must be ", std::string(right)));
}

bool ParseRate(const std::string& text, double* rate) {
  return absl::SimpleAtod(text, rate) && *rate >= 0 && *rate <= kMaxRate;
}

}  // namespace

absl::StatusOr<std::vector<Rate>> ParseRates(std::string_view text) {
  std::vector<Rate> rates;
  for (const std::string& item : Items(text)) {
    const size_t dots = item.find("..");
    Rate rate;
    const bool ok = ParseRate(item.substr(0, dots), &rate.begin) &&
                    ParseRate(dots == item.npos ? item : item.substr(dots + 2), &rate.end);
    if (!ok || rate.mean() <= 0 || rates.size() == kMaxSteps) {
      return Wrong(
          text, absl::StrCat("requests per second, up to ", kMaxRate, ": R, a ramp R..R, or up to ",
                             kMaxSteps, " of these with commas"));
    }
    rates.push_back(rate);
  }
  return rates;
}

absl::StatusOr<std::vector<int64_t>> ParseUsers(std::string_view text) {
  std::vector<int64_t> users;
  for (const std::string& item : Items(text)) {
    int64_t count = 0;
    if (!absl::SimpleAtoi(item, &count) || count < 1 || count > kMaxUsers ||
        users.size() == kMaxSteps) {
      return Wrong(text, absl::StrCat("1 to ", kMaxUsers, " users, or up to ", kMaxSteps,
                                      " such numbers with commas"));
    }
    users.push_back(count);
  }
  return users;
}

absl::StatusOr<MaxErrors> ParseMaxErrors(std::string_view text) {
  std::string number(text);
  MaxErrors result;
  if (number.ends_with('%')) {
    number.pop_back();
    double percent = 0;
    if (absl::SimpleAtod(number, &percent) && percent >= 0 && percent <= 100) {
      result.fraction = percent / 100;
      return result;
    }
  } else if (absl::SimpleAtoi(number, &result.count) && result.count >= 0) {
    return result;
  }
  return Wrong(text, "a number of requests, or 0% to 100% of them");
}

}  // namespace tvq::loadtest
