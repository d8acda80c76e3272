#include "client/gateway/static_files.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "client/gateway/http/accept_encoding.h"

namespace tvq::gateway {
namespace {

struct Type {
  std::string_view suffix;
  const char* name;
};

constexpr Type kTypes[] = {{".html", "text/html; charset=utf-8"},
                           {".js", "text/javascript; charset=utf-8"},
                           {".css", "text/css; charset=utf-8"},
                           {".json", "application/json"},
                           {".svg", "image/svg+xml"},
                           {".png", "image/png"},
                           {".ico", "image/x-icon"},
                           {".woff2", "font/woff2"},
                           {".txt", "text/plain; charset=utf-8"},
                           {".webmanifest", "application/manifest+json"}};

// The page runs its own scripts alone, speaks with this gateway alone, and shows in no other page.
constexpr char kPolicy[] =
    "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'";

const char* TypeOf(std::string_view path) {
  for (const Type& type : kTypes) {
    if (path.ends_with(type.suffix)) return type.name;
  }
  return "application/octet-stream";
}

// FNV-1a of 64 bits, in hexadecimal digits.
std::string HashOf(std::string_view content) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : content) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return absl::StrFormat("%016x", hash);
}

// A file as it is sent, and its ETag.
struct Form {
  std::string_view content;
  std::string tag;
};

struct Entry {
  Form plain;
  std::optional<Form> gzip;
};

Entry EntryOf(const StaticFile& file) {
  const std::string hash = HashOf(file.content);
  Entry entry{.plain = {file.content, absl::StrFormat("\"%s\"", hash)}};
  if (!file.gzip.empty() && file.gzip.size() < file.content.size()) {
    entry.gzip = Form{file.gzip, absl::StrFormat("\"%s-gzip\"", hash)};
  }
  return entry;
}

const std::map<std::string_view, Entry>& Entries() {
  static const auto* const entries = [] {
    auto* const made = new std::map<std::string_view, Entry>;
    for (const StaticFile& file : EmbeddedFiles()) made->emplace(file.path, EntryOf(file));
    return made;
  }();
  return *entries;
}

}  // namespace

std::optional<Response> ServeStatic(const Request& request) {
  std::string_view path = request.path;
  if (!path.starts_with('/')) return std::nullopt;
  path.remove_prefix(1);
  if (path.empty()) path = "index.html";
  const auto it = Entries().find(path);
  if (it == Entries().end()) return std::nullopt;
  const Entry& entry = it->second;
  const bool compressed = entry.gzip && AcceptsGzip(request);
  const Form& form = compressed ? *entry.gzip : entry.plain;
  // Names under assets/ have a hash of the content.
  const bool immutable = path.starts_with("assets/");
  Response response{
      .content_type = TypeOf(path),
      .headers = {{"ETag", form.tag},
                  {"Cache-Control", immutable ? "public, max-age=31536000, immutable" : "no-cache"},
                  {"Content-Security-Policy", kPolicy},
                  {"X-Content-Type-Options", "nosniff"},
                  {"Referrer-Policy", "no-referrer"}}};
  if (entry.gzip) response.headers.push_back({"Vary", "Accept-Encoding"});
  const std::string known(request.Find("if-none-match"));
  if (known == "*" || absl::StrContains(known, form.tag)) {
    response.status = 304;
    response.content_type.clear();
  } else {
    if (compressed) response.headers.push_back({"Content-Encoding", "gzip"});
    response.body = std::string(form.content);
  }
  return response;
}

}  // namespace tvq::gateway
