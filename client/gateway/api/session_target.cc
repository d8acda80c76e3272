#include "client/gateway/api/session_target.h"

#include <string>

#include "client/gateway/http/message.h"

namespace tvq::gateway {

SessionTarget TargetOf(const Exchange& exchange, const PathFields& path) {
  return {.id = path.find("id")->second,
          .idempotency_key = std::string(exchange.request().Find("idempotency-key"))};
}

QueryMap QueryOf(const Exchange& exchange) {
  QueryFields fields;
  ParseQuery(exchange.request().query, &fields);
  QueryMap query;
  for (auto& [name, value] : fields) query.insert_or_assign(name, value);
  return query;
}

// Paths name the session, not a field.
ApiError SessionError(const absl::Status& status) {
  ApiError error = ToApiError(status, SessionFieldNames());
  RenameInMessage("next_page_token", "next", &error.message);  // of a page
  return error;
}

}  // namespace tvq::gateway
