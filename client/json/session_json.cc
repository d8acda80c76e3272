#include "client/json/session_json.h"

#include <utility>

namespace tvq::client {

const char* TierName(v1::SessionTier tier) {
  switch (tier) {
    case v1::SESSION_TIER_DEVICE:
      return "device";
    case v1::SESSION_TIER_HOST:
      return "host";
    case v1::SESSION_TIER_DURABLE:
      return "durable";
    default:
      return "unknown";
  }
}

OrderedJson ToJson(const v1::Session& session) {
  OrderedJson marks = OrderedJson::array();
  for (const v1::SessionMark& mark : session.marks()) {
    marks.push_back(
        {{"name", mark.name()}, {"version", mark.version()}, {"position", mark.position()}});
  }
  OrderedJson json;
  json["id"] = session.id();
  json["object"] = "session";
  json["model"] = session.model();
  json["parent_id"] =
      session.parent_id().empty() ? OrderedJson() : OrderedJson(session.parent_id());
  json["parent_version"] = session.parent_version();
  json["version"] = session.version();
  json["persisted_version"] = session.persisted_version();
  json["position"] = session.position();
  json["bytes"] = session.bytes();
  json["tier"] = TierName(session.tier());
  json["created"] = session.create_time().seconds();
  json["last_used"] = session.last_use_time().seconds();
  json["expires"] =
      session.has_expire_time() ? OrderedJson(session.expire_time().seconds()) : OrderedJson();
  json["marks"] = std::move(marks);
  json["has_transcript"] = session.has_transcript();
  json["add_special_tokens"] = session.add_special_tokens();
  json["label"] = session.label();
  return json;
}

OrderedJson ToJson(const v1::SessionPosition& position) {
  OrderedJson json;
  json["id"] = position.session_id();
  json["version"] = position.version();
  json["persisted_version"] = position.persisted_version();
  json["position"] = position.position();
  return json;
}

}  // namespace tvq::client
