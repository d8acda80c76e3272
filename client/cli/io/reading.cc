#include "client/cli/io/reading.h"

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"

namespace tvq::cli {
namespace {

constexpr int64_t kLongBytes = 4096;
constexpr int64_t kLongTokens = 1024;
constexpr double kQuietSeconds = 1;
constexpr std::chrono::milliseconds kPeriod{200};
constexpr int kBarWidth = 25;

constexpr absl::Duration kAskTime = absl::Seconds(1);

// "1,234,567".
std::string Grouped(int64_t number) {
  std::string digits = absl::StrCat(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  return digits;
}

std::string ModelOf(const Globals& globals, const std::string& session_id) {
  v1::GetSessionRequest request;
  request.set_session_id(session_id);
  const auto found = globals.client->sessions().Get(request, globals.Call());
  return found.ok() ? found->session().model() : "";
}

}  // namespace

bool PromptSize::IsShown() const {
  return count >= (is_tokens ? kLongTokens : kLongBytes) && isatty(STDERR_FILENO) == 1;
}

std::string PromptSize::ToString() const {
  return absl::StrCat(Grouped(count), is_tokens ? " tokens" : " bytes");
}

PromptSize ShownSize(const Globals& globals, PromptSize size, const v1::TokenizeRequest& text) {
  if (!size.IsShown() || size.is_tokens) return size;
  const auto tokens = globals.client->Tokenize(text, globals.Call());
  if (!tokens.ok()) return size;  // the call itself will say why
  return {tokens->token_ids_size(), /*is_tokens=*/true};
}

Reading::Reading(PromptSize size, Ask ask) : size_(size), ask_(std::move(ask)) {
  if (size.IsShown()) ticker_.emplace(kPeriod, [this] { Draw(); });
}

Reading::Reading(const Globals& globals, PromptSize size, v1::TokenizeRequest text,
                 const std::string& session_id)
    : Reading(
          [&] {
            if (size.IsShown() && !session_id.empty()) {
              text.set_model(ModelOf(globals, session_id));
              text.set_add_special_tokens(false);
            }
            return ShownSize(globals, size, text);
          }(),
          size.IsShown() ? Counters(globals, !session_id.empty()) : nullptr) {}

// Of what a session holds already, which it continues from, the server counts the tokens as reused.
Reading::Ask Reading::Counters(const Globals& globals, bool continues) {
  const auto info = [&globals] { return globals.client->GetServerInfo({.timeout = kAskTime}); };
  const auto read = [continues](const v1::GetServerInfoResponse& info) {
    return info.prefill_tokens_computed() + (continues ? 0 : info.prefill_tokens_reused());
  };
  const auto before = info();
  if (!before.ok() || before->requests_running() + before->requests_waiting() > 0) return nullptr;
  return [=, begin = read(*before)]() -> std::optional<int64_t> {
    const auto now = info();
    if (!now.ok() || now->requests_running() != 1) return std::nullopt;  // others count, too
    return read(*now) - begin;
  };
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
  const int64_t tokens = ask_ ? ask_().value_or(-1) : tokens_.load();
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
