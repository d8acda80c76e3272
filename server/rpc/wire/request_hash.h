// What a call asks, as a hash: tells a retry from another call with the same idempotency key.
#ifndef TVQ_SERVER_RPC_WIRE_REQUEST_HASH_H_
#define TVQ_SERVER_RPC_WIRE_REQUEST_HASH_H_

#include <google/protobuf/message.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "server/sessions/snapshot/frame.h"
#include "tvq/v1/session.pb.h"

namespace tvq {

// XXH3-64. It is stored with the reply that it belongs to.
class RequestHash {
 public:
  RequestHash() { hash_.Begin(0); }

  // The message's type and fields.
  void Add(const google::protobuf::Message& message);
  // The same for what comes in pieces, wherever they are cut.
  void Add(std::string_view bytes) { hash_.Add(std::as_bytes(std::span(bytes))); }

  uint64_t value() const { return hash_.Value(); }

 private:
  SectionHash hash_;
};

// Of a request with a field `session`, which says how it is to be done, not what. 0 without a key.
template <typename Request>
uint64_t HashOfCall(const Request& request) {
  if (request.session().idempotency_key().empty()) return 0;
  Request asked = request;
  asked.clear_session();
  RequestHash hash;
  hash.Add(asked);
  return hash.value();
}

// Of a session that is to be made, alone or from what follows.
RequestHash HashOfCreation(v1::CreateSessionRequest asked);

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_WIRE_REQUEST_HASH_H_
