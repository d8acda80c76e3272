// Who calls a method, and what the method asks of its caller.
#ifndef TVQ_SERVER_RPC_ACCESS_CALLER_H_
#define TVQ_SERVER_RPC_ACCESS_CALLER_H_

#include <string>

#include "server/engine/request/owner_limits.h"

namespace tvq {

// What a method needs its caller's key to be allowed.
enum class Permission {
  kAny,  // a key, whatever it is for
  kGenerate,
  kSessions,
  kAdmin,
};

// A method as keys, logs and metrics know it.
struct MethodInfo {
  const char* name;  // "GenerationService/Generate"; a literal
  Permission permission;
};

// Whom an accepted call belongs to.
struct Caller {
  std::string owner;     // of sessions: the name of the key; empty on a server without keys
  std::string sharer;    // of turns and shares: the owner; without keys the network that calls
  OwnerLimits limits;    // of what the owner's requests may have of the engine
  bool admin = false;    // the key has the admin permission
  bool sessions = true;  // the key has the sessions permission
  std::string request_id;
  std::string session_id;  // that the call names, for logs
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_ACCESS_CALLER_H_
