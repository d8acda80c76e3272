#include "client/cli/io/reading.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace tvq::cli {
namespace {

constexpr int64_t kLongBytes = 4096;
constexpr int64_t kLongTokens = 1024;
constexpr double kQuietSeconds = 1;
constexpr std::chrono::milliseconds kPeriod{200};
constexpr int kBarWidth = 25;

// "1,234,567".
std::string Grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

}  // namespace

bool PromptSize::IsLong() const { return count >= (is_tokens ? kLongTokens : kLongBytes); }

std::string PromptSize::ToString() const {
  return absl::StrCat(Grouped(count), is_tokens ? " tokens" : " bytes");
}

Reading::Reading(PromptSize size) : size_(size) {
  if (size.IsLong() && isatty(STDERR_FILENO) == 1) ticker_.emplace(kPeriod, [this] { Draw(); });
}

Reading::~Reading() {
  ticker_.reset();
  if (shown_) std::fputs("\r\033[K", stderr);
}

void Reading::Show(int64_t tokens) { tokens_ = tokens; }

void Reading::Done() {
  ticker_.reset();
  if (!shown_.exchange(false)) return;
  std::fprintf(stderr, "\r\033[Kread %s in %.1f s (%s)\n", size_.ToString().c_str(), Seconds(),
               Rate(size_.count).c_str());
}

double Reading::Seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

std::string Reading::Rate(int64_t count) const {
  const auto rate = static_cast<int64_t>(static_cast<double>(count) / Seconds());
  return PromptSize{rate, size_.is_tokens}.ToString() + "/s";
}

void Reading::Draw() {
  if (Seconds() < kQuietSeconds) return;
  shown_ = true;
  const int64_t tokens = tokens_;
  std::string progress = " …";
  if (tokens >= 0 && size_.is_tokens) {
    const int64_t percent = std::min<int64_t>(100, 100 * tokens / size_.count);
    const std::string bar(percent * kBarWidth / 100, '#');
    progress = absl::StrFormat(" [%-*s] %d%%, %s,", kBarWidth, bar, percent, Rate(tokens));
  }
  std::fprintf(stderr, "\rreading %s%s %.0f s\033[K", size_.ToString().c_str(), progress.c_str(),
               Seconds());
}

}  // namespace tvq::cli
