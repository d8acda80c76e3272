#include "client/gateway/bodies/raw_json.h"

#include <algorithm>
#include <cstddef>

#include "client/gateway/bodies/json_body.h"

namespace tvq::gateway {
namespace {

// Walks through valid JSON.
class Walker {
 public:
  explicit Walker(std::string_view text) : text_(text) {}

  // The next character that is no blank; '\0' at the end.
  char Peek() {
    at_ = std::min(text_.find_first_not_of(" \n\r\t", at_), text_.size());
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  // Passes it if it is one of these.
  bool Pass(std::string_view any) {
    const char next = Peek();
    if (next == '\0' || any.find(next) == std::string_view::npos) return false;
    ++at_;
    return true;
  }
  std::string_view Value() {
    Peek();
    const size_t begin = at_;
    int depth = 0;
    do {
      const char c = text_[at_];
      if (c == '"') {
        PassString();
        continue;
      }
      if (depth == 0 && (c == ',' || c == ']' || c == '}')) break;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
      ++at_;
      const bool closed = depth == 0 && (c == ']' || c == '}');
      if (closed) break;
    } while (at_ < text_.size() && (depth > 0 || !EndsHere(begin)));
    return text_.substr(begin, at_ - begin);
  }

 private:
  // A text ends with its quote, another plain value before what cannot be part of it.
  bool EndsHere(size_t begin) const {
    return text_[begin] == '"' ||
           std::string_view(" \n\r\t,]}:").find(text_[at_]) != std::string_view::npos;
  }
  void PassString() {
    for (++at_; at_ < text_.size() && text_[at_] != '"'; ++at_) {
      if (text_[at_] == '\\') ++at_;
    }
    at_ = std::min(at_ + 1, text_.size());
  }

  const std::string_view text_;
  size_t at_ = 0;
};

std::string Unquoted(std::string_view name) {
  if (name.find('\\') != std::string_view::npos) return Json::parse(name).get<std::string>();
  return std::string(name.substr(1, name.size() - 2));
}

}  // namespace

std::vector<RawMember> MembersOf(std::string_view object) {
  std::vector<RawMember> members;
  Walker walker(object);
  for (walker.Pass("{"); walker.Peek() == '"'; walker.Pass(",")) {
    std::string name = Unquoted(walker.Value());
    walker.Pass(":");
    members.push_back({std::move(name), walker.Value()});
  }
  return members;
}

std::vector<std::string_view> ItemsOf(std::string_view list) {
  std::vector<std::string_view> items;
  Walker walker(list);
  walker.Pass("[");
  while (walker.Peek() != '\0' && !walker.Pass("]")) {
    items.push_back(walker.Value());
    walker.Pass(",");
  }
  return items;
}

std::string_view ValueAt(std::string_view object, std::span<const std::string_view> names) {
  for (const std::string_view name : names) {
    std::string_view found;
    for (const RawMember& member : MembersOf(object)) {
      if (member.name == name) found = member.value;
    }
    object = found;
  }
  return object;
}

}  // namespace tvq::gateway
