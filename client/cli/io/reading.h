#ifndef TVQ_CLIENT_CLI_IO_READING_H_
#define TVQ_CLIENT_CLI_IO_READING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "base/ticker.h"
#include "client/cli/command.h"

namespace tvq::cli {

// How long a prompt is.
struct PromptSize {
  int64_t count = 0;
  bool is_tokens = false;  // else bytes of text

  // Whether to show progress: it may take long to read, and stderr is a terminal.
  bool IsShown() const;
  std::string ToString() const;  // "1,234,567 bytes"
};

// Of the text or the ids of a request.
template <typename Request>
PromptSize SizeOf(const Request& request) {
  if (request.has_token_ids()) return {request.token_ids().ids_size(), /*is_tokens=*/true};
  return {static_cast<int64_t>(request.text().size()), /*is_tokens=*/false};
}

// The text of a request, to be tokenized.
template <typename Request>
v1::TokenizeRequest TextOf(const Request& request) {
  v1::TokenizeRequest text;
  if constexpr (requires { request.model(); }) text.set_model(request.model());
  text.set_text(request.text());
  return text;
}

// The same size in tokens, which the server says: asked where it is shown.
PromptSize ShownSize(const Globals& globals, PromptSize size, const v1::TokenizeRequest& text);

// A line in the terminal, on stderr, while the server reads a long prompt: its size and the time
// that has passed or, where the server says how far it is, a bar and a rate. Nothing where there is
// no terminal, where the prompt is short, and before a second has passed.
class Reading {
 public:
  // Of a call that tells how far it is.
  explicit Reading(PromptSize size) : Reading(size, nullptr) {}
  // For a request that is to be sent and whose answers do not tell how far it is. Then the server's
  // counters tell it, as long as the server does nothing else.
  template <typename Request>
  Reading(const Globals& globals, const Request& request)
      : Reading(globals, SizeOf(request), TextOf(request), request.session().session_id()) {}
  ~Reading();  // wipes the line
  Reading(const Reading&) = delete;

  // So many tokens have been read, of a size in tokens.
  void Show(int64_t tokens);
  // All has been read. If the line was there, one that says how long it took stays in its place.
  void Done();

 private:
  using Clock = std::chrono::steady_clock;
  using Ask = std::function<std::optional<int64_t>()>;  // for the tokens read; nothing: unknown

  Reading(PromptSize size, Ask ask);
  Reading(const Globals& globals, PromptSize size, v1::TokenizeRequest text,
          const std::string& session_id);
  static Ask Counters(const Globals& globals, bool continues);

  double Seconds() const;
  std::string Rate(int64_t count) const;
  void Draw();

  const PromptSize size_;
  const Ask ask_;  // null: Show tells
  const Clock::time_point start_ = Clock::now();
  std::atomic<int64_t> tokens_ = -1;  // that Show told; -1: none
  std::atomic<bool> shown_ = false;
  std::optional<Ticker> ticker_;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_READING_H_
