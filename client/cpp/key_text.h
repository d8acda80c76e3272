#ifndef TVQ_CLIENT_CPP_KEY_TEXT_H_
#define TVQ_CLIENT_CPP_KEY_TEXT_H_

#include <string>

#include "absl/status/statusor.h"

namespace tvq::client {

// What to tell where a server wants a key and none was given.
inline constexpr char kGiveKey[] = "This server needs a key: --api-key @FILE or TVQ_API_KEY";

// The key that --api-key is given: KEY itself, or @FILE, of which the first line is it. NOT_FOUND
// for a file that cannot be read, INVALID_ARGUMENT where it holds no key.
absl::StatusOr<std::string> ReadKeyText(const std::string& text);

}  // namespace tvq::client

#endif  // TVQ_CLIENT_CPP_KEY_TEXT_H_
