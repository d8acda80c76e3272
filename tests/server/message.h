#ifndef TVQ_TESTS_SERVER_MESSAGE_H_
#define TVQ_TESTS_SERVER_MESSAGE_H_

#include <string>

#include "absl/status/status.h"

namespace tvq {

// For matchers, which do not take absl's views.
inline std::string Message(const absl::Status& status) { return std::string(status.message()); }

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_MESSAGE_H_
