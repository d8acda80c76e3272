// Files that are part of the program: the web page, the API's description.
#ifndef TVQ_CLIENT_GATEWAY_STATIC_FILES_H_
#define TVQ_CLIENT_GATEWAY_STATIC_FILES_H_

#include <optional>
#include <span>
#include <string_view>

#include "client/gateway/http/message.h"

namespace tvq::gateway {

struct StaticFile {
  std::string_view path;  // in its folder, without a slash in front
  std::string_view content;
  std::string_view gzip;  // the same, compressed; empty where it is no text
};

// The files of client/web/dist, and openapi.json; index.html and this have the fields of sampling.
// Made by embed.cmake.
std::span<const StaticFile> EmbeddedFiles();

// The file at a path of a URL, "/" being index.html; nothing if there is none. Compressed where the
// client takes that. A client that names the version it has, in If-None-Match, is told that it is
// the same.
std::optional<Response> ServeStatic(const Request& request);

}  // namespace tvq::gateway

#endif  // TVQ_CLIENT_GATEWAY_STATIC_FILES_H_
