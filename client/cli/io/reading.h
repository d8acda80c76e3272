#ifndef TVQ_CLIENT_CLI_IO_READING_H_
#define TVQ_CLIENT_CLI_IO_READING_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "base/ticker.h"

namespace tvq::cli {

// How long a prompt is.
struct PromptSize {
  int64_t count = 0;
  bool is_tokens = false;  // else bytes of text

  // Whether it may take so long to read that somebody wonders.
  bool IsLong() const;
  std::string ToString() const;  // "1,234,567 bytes"
};

// Of the text or the ids of a request.
template <typename Request>
PromptSize SizeOf(const Request& request) {
  if (request.has_token_ids()) return {request.token_ids().ids_size(), /*is_tokens=*/true};
  return {static_cast<int64_t>(request.text().size()), /*is_tokens=*/false};
}

// A line in the terminal, on stderr, while the server reads a long prompt: its size and the time
// that has passed or, where the server says how far it is, a bar and a rate. Nothing where there is
// no terminal, where the prompt is short, and before a second has passed.
class Reading {
 public:
  explicit Reading(PromptSize size);
  ~Reading();  // wipes the line
  Reading(const Reading&) = delete;

  // So many tokens have been read, of a size in tokens.
  void Show(int64_t tokens);
  // All has been read. If the line was there, one that says how long it took stays in its place.
  void Done();

 private:
  using Clock = std::chrono::steady_clock;

  double Seconds() const;
  std::string Rate(int64_t count) const;
  void Draw();

  const PromptSize size_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<int64_t> tokens_ = -1;  // read so far; -1: nobody says
  std::atomic<bool> shown_ = false;
  std::optional<Ticker> ticker_;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_READING_H_
