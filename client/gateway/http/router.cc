#include "client/gateway/http/router.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_join.h"

namespace tvq::gateway {
namespace {

std::vector<std::string_view> Segments(std::string_view path) {
  std::vector<std::string_view> segments;
  if (path.starts_with('/')) path.remove_prefix(1);
  while (true) {
    const size_t slash = path.find('/');
    segments.push_back(path.substr(0, slash));
    if (slash == std::string_view::npos) return segments;
    path.remove_prefix(slash + 1);
  }
}

bool IsField(std::string_view segment) { return segment.starts_with('{'); }

bool Fits(const std::vector<std::string_view>& pattern, const std::vector<std::string_view>& path) {
  return std::equal(pattern.begin(), pattern.end(), path.begin(), path.end(),
                    [](std::string_view wanted, std::string_view segment) {
                      return IsField(wanted) ? !segment.empty() : wanted == segment;
                    });
}

}  // namespace

void Router::Add(std::string_view method, std::string_view pattern, RouteHandler handler) {
  routes_.push_back({method, pattern, Segments(pattern), std::move(handler)});
}

Router::Match Router::Find(std::string_view method, std::string_view path) const {
  const std::vector<std::string_view> segments = Segments(path);
  Match match;
  std::set<std::string> allow;
  const Route* found = nullptr;
  for (const Route& route : routes_) {
    if (!Fits(route.segments, segments)) continue;
    // What is named as it is goes before what a field stands for.
    if (match.pattern.empty() || match.pattern == route.pattern) {
      match.pattern = route.pattern;
    } else {
      continue;
    }
    allow.insert(std::string(route.method));
    if (route.method == "GET") allow.insert("HEAD");
    if (route.method == method || (method == "HEAD" && route.method == "GET")) found = &route;
  }
  if (match.pattern.empty()) return match;
  allow.insert("OPTIONS");
  match.allow = absl::StrJoin(allow, ", ");
  if (found == nullptr) return match;
  match.handler = &found->handler;
  for (size_t i = 0; i < segments.size(); ++i) {
    const std::string_view name = found->segments[i];
    if (!IsField(name)) continue;
    std::string value;
    if (!PercentDecode(segments[i], false, &value)) match.malformed = true;
    match.fields.emplace(std::string(name.substr(1, name.size() - 2)), std::move(value));
  }
  return match;
}

}  // namespace tvq::gateway
