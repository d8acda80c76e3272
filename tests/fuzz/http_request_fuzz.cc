// Any bytes as what a client sends over a connection: in whatever pieces they arrive, the same
// requests come out, and the same is refused; where a body ends is never in doubt, and what waits
// for its end is bounded. The first byte chooses the pieces.
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "client/gateway/http/message.h"
#include "client/gateway/http/request_parser.h"

namespace tvq::gateway {
namespace {

using Result = RequestParser::Result;

constexpr size_t kNoLimit = 1 << 20;  // beyond any input
constexpr size_t kTightLimit = 64;

void Expect(bool sound) {
  if (!sound) std::abort();
}

// What a proxy in front could read in another way.
void ExpectClear(const Request& request) {
  const int encodings = request.Count("transfer-encoding");
  Expect(encodings <= 1 && (encodings == 0 || !request.http10));
  Expect(encodings == 0 || request.Count("content-length") == 0);
}

void Decode(const Request& request) {
  std::string path;
  PercentDecode(request.path, false, &path);
  Expect(path.size() <= request.path.size());
  QueryFields fields;
  ParseQuery(request.query, &fields);
}

// Reads requests from bytes that come `step` at a time.
class Reader {
 public:
  Reader(std::string_view bytes, size_t step, size_t max_header_bytes)
      : bytes_(bytes), step_(step), max_header_bytes_(max_header_bytes) {}

  // All complete ones, as text, and what became of the rest.
  std::vector<std::string> ReadAll() {
    std::vector<std::string> all;
    std::string one;
    while (ReadOne(&one)) all.push_back(one);
    all.emplace_back(refused_ ? "refused" : "ended");
    return all;
  }

 private:
  std::string_view unread() const { return bytes_.substr(begin_, end_ - begin_); }
  bool More() {
    const size_t before = end_;
    end_ = std::min(bytes_.size(), end_ + step_);
    return end_ > before;
  }

  bool ReadOne(std::string* text) {
    RequestParser parser(max_header_bytes_);
    auto result = Result::kMore;
    while (result == Result::kMore) {
      size_t consumed = 0;
      if (!unread().empty()) result = parser.ParseHeader(unread(), &consumed);
      Expect(consumed <= unread().size());
      begin_ += consumed;
      if (result == Result::kMore) Expect(unread().size() < max_header_bytes_);
      if (result == Result::kMore && !More()) return false;
    }
    refused_ = result != Result::kDone;
    if (refused_) return false;
    const Request request = parser.TakeRequest();
    ExpectClear(request);
    Decode(request);
    *text = request.method + " " + request.path + "?" + request.query;
    for (const Header& header : request.headers) *text += "\n" + header.name + ": " + header.value;
    *text += "\n\n";
    return ReadBody(parser, text);
  }

  bool ReadBody(RequestParser& parser, std::string* text) {
    const size_t before = text->size();
    while (!parser.body_done()) {
      std::array<char, 7> piece;
      size_t consumed = 0, written = 0;
      auto result = Result::kMore;
      if (!unread().empty()) {
        result = parser.ParseBody(unread(), &consumed, piece.data(), piece.size(), &written);
      }
      Expect(consumed <= unread().size() && written <= piece.size());
      begin_ += consumed;
      text->append(piece.data(), written);
      if (result == Result::kMore) Expect(unread().size() <= max_header_bytes_);
      refused_ = result == Result::kBad || result == Result::kTooLarge;
      if (refused_ || (result == Result::kMore && !More())) return false;
    }
    const auto length = parser.content_length();
    Expect(!length || *length == text->size() - before);
    return true;
  }

  const std::string_view bytes_;
  const size_t step_;
  const size_t max_header_bytes_;
  size_t begin_ = 0, end_ = 0;
  bool refused_ = false;
};

}  // namespace
}  // namespace tvq::gateway

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t step = size_t{1} + data[0] % 64;
  for (const size_t limit : {tvq::gateway::kNoLimit, tvq::gateway::kTightLimit}) {
    const auto together = tvq::gateway::Reader(bytes, bytes.size(), limit).ReadAll();
    const auto apart = tvq::gateway::Reader(bytes, step, limit).ReadAll();
    if (together != apart) std::abort();
  }
  return 0;
}
