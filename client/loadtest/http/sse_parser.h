#ifndef TVQ_CLIENT_LOADTEST_HTTP_SSE_PARSER_H_
#define TVQ_CLIENT_LOADTEST_HTTP_SSE_PARSER_H_

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tvq::loadtest {

// Server-sent events (WHATWG HTML, section 9.2.6), of which only `data` is wanted: lines end with
// CR LF, LF or CR, an empty line ends an event, several data lines are joined by LF. Pieces may be
// cut anywhere. No byte is copied that is not cut.
class SseParser {
 public:
  // Larger events are not worth their memory: Feed is false from then on.
  static constexpr size_t kMaxEventBytes = size_t{4} << 20;

  // Calls `on_event` with the data of each event that ends in `piece`.
  bool Feed(std::string_view piece, const std::function<void(std::string_view data)>& on_event);

 private:
  bool TakeLine(std::string_view line, const std::function<void(std::string_view)>& on_event);

  std::string line_;  // begun, and cut
  std::string data_;  // of the event
  bool has_data_ = false;
  bool after_cr_ = false;  // an LF that comes next belongs to it
  bool failed_ = false;
};

}  // namespace tvq::loadtest

#endif  // TVQ_CLIENT_LOADTEST_HTTP_SSE_PARSER_H_
