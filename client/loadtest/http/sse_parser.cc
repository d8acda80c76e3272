#include "client/loadtest/http/sse_parser.h"

namespace tvq::loadtest {

bool SseParser::Feed(std::string_view piece,
                     const std::function<void(std::string_view data)>& on_event) {
  while (!piece.empty() && !failed_) {
    if (after_cr_) {
      after_cr_ = false;
      if (piece.front() == '\n') {
        piece.remove_prefix(1);
        continue;
      }
    }
    const size_t end = piece.find_first_of("\r\n");
    if (end == piece.npos) {
      line_ += piece;
      failed_ = line_.size() > kMaxEventBytes;
      break;
    }
    after_cr_ = piece[end] == '\r';
    if (line_.empty()) {
      failed_ = !TakeLine(piece.substr(0, end), on_event);
    } else {
      line_ += piece.substr(0, end);
      failed_ = !TakeLine(line_, on_event);
      line_.clear();
    }
    piece.remove_prefix(end + 1);
  }
  return !failed_;
}

bool SseParser::TakeLine(std::string_view line,
                         const std::function<void(std::string_view)>& on_event) {
  if (line.empty()) {
    if (has_data_) on_event(data_);
    has_data_ = false;
    data_.clear();
    return true;
  }
  const size_t colon = line.find(':');
  if (line.substr(0, colon) != "data") return true;
  std::string_view value = colon == line.npos ? "" : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (has_data_) data_ += '\n';
  has_data_ = true;
  data_ += value;
  return data_.size() <= kMaxEventBytes;
}

}  // namespace tvq::loadtest
