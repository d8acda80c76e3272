#ifndef TVQ_CLIENT_CLI_LINE_LINE_EDITOR_H_
#define TVQ_CLIENT_CLI_LINE_LINE_EDITOR_H_

#include <cstdint>
#include <memory>
#include <string>

namespace tvq::cli {

// Lines that are typed in a terminal, with the keys that one knows from shells: arrows, Home, End,
// Ctrl-A, -E, -K, -U, -W, Ctrl-R for the history. The line feeds of a text that is pasted are part
// of the line, where the terminal brackets what is pasted. It hides libedit: no other file includes
// that.
class LineEditor {
 public:
  enum class Outcome : uint8_t { kLine, kEnd, kInterrupted };

  // Of stdin and stderr; nullptr where these are no terminal or one that can do nothing (TERM).
  static std::unique_ptr<LineEditor> Make();
  virtual ~LineEditor() = default;

  // Without the line feed at its end. After kInterrupted: what the line was.
  virtual Outcome Read(const std::string& prompt, std::string* line) = 0;
  // The arrows find it from now on.
  virtual void Remember(const std::string& line) = 0;

  // These two may be called in any thread.

  // Ends the Read that is under way, if there is one.
  virtual void Interrupt() = 0;
  // Gives the terminal back as it was, when the process ends amid a Read.
  virtual void Restore() = 0;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_LINE_LINE_EDITOR_H_
