#ifndef TVQ_CLIENT_CLI_LINE_MESSAGE_LINES_H_
#define TVQ_CLIENT_CLI_LINE_MESSAGE_LINES_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace tvq::cli {

// Lines that are typed and make one message. A message goes on in the next line where a line ends
// with a backslash, and from """ at its beginning to """ at the end of a line. What is added may
// have line feeds in it, as a text that is pasted: they are part of the message.
class MessageLines {
 public:
  // Returns whether the message is whole.
  bool Add(std::string_view line);

  // Of a whole message.
  const std::string& text() const { return text_; }
  // Whether it stood between """, so that a slash at its beginning makes no command of it.
  bool is_quoted() const { return quoted_; }
  // How many bytes were typed before the text.
  size_t left_out() const { return left_out_; }
  // What stands for the message in one piece: added again, it gives the same.
  std::string Typed() const;

  // Whether a part of a message was added.
  bool begun() const { return begun_; }
  void Clear() { *this = MessageLines(); }

 private:
  bool AddQuoted(std::string_view line);

  std::string text_;
  bool begun_ = false, quoted_ = false;
  size_t left_out_ = 0;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_LINE_MESSAGE_LINES_H_
