#include "client/cli/line/message_lines.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

constexpr std::string_view kQuotes = "\"\"\"";

// Two backslashes are two backslashes.
bool GoesOn(std::string_view line) {
  const size_t end = line.find_last_not_of('\\');
  const size_t backslashes = line.size() - (end == std::string_view::npos ? 0 : end + 1);
  return backslashes % 2 == 1;
}

}  // namespace

bool MessageLines::Add(std::string_view line) {
  if (!begun_ && line.starts_with(kQuotes)) {
    begun_ = quoted_ = true;
    line.remove_prefix(kQuotes.size());
    left_out_ = kQuotes.size();
    if (line.empty()) {  // the text begins with the next line
      ++left_out_;
      return false;
    }
    if (line.front() == '\n') {
      ++left_out_;
      line.remove_prefix(1);
    }
    return AddQuoted(line);
  }
  if (quoted_) return AddQuoted(line);
  begun_ = true;
  const bool goes_on = GoesOn(line);
  if (goes_on) line.remove_suffix(1);
  absl::StrAppend(&text_, std::string(line), goes_on ? "\n" : "");
  return !goes_on;
}

bool MessageLines::AddQuoted(std::string_view line) {
  if (!line.ends_with(kQuotes)) {
    absl::StrAppend(&text_, std::string(line), "\n");
    return false;
  }
  line.remove_suffix(kQuotes.size());
  text_ += line;
  if (text_.ends_with('\n')) text_.pop_back();  // the quotes have a line of their own
  return true;
}

std::string MessageLines::Typed() const {
  if (!quoted_) return text_;
  return absl::StrCat(std::string(kQuotes), "\n", text_, "\n", std::string(kQuotes));
}

}  // namespace tvq::cli
