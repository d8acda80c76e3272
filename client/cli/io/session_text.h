// Sessions as lines for people, and several as JSON.
#ifndef TVQ_CLIENT_CLI_IO_SESSION_TEXT_H_
#define TVQ_CLIENT_CLI_IO_SESSION_TEXT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/time/time.h"
#include "client/json/session_json.h"
#include "tvq/v1/session.pb.h"

namespace tvq::cli {

using client::OrderedJson;
using client::ToJson;
OrderedJson ToJson(const std::vector<v1::Session>& sessions);

// "position 12, version 3, saved".
std::string Text(const v1::SessionPosition& position);
// Lines of names and values.
std::string Text(const v1::Session& session);
// A line per session, columns aligned; `now` gives the ages.
std::string Table(const std::vector<v1::Session>& sessions, absl::Time now);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_SESSION_TEXT_H_
