#ifndef TVQ_CLIENT_CLI_COMMANDS_SESSION_TREE_H_
#define TVQ_CLIENT_CLI_COMMANDS_SESSION_TREE_H_

#include <string>
#include <vector>

#include "tvq/v1/session.pb.h"

namespace tvq::cli {

// The tree that forks make, a line per session in the order given. A session whose parent is not
// among them is a root. Sessions that would be their own ancestors are roots too.
std::string DrawTree(const std::vector<v1::Session>& sessions);

// `id` and all that descend from it, in the order given; nothing if it is not among them.
std::vector<v1::Session> Subtree(const std::vector<v1::Session>& sessions, const std::string& id);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_COMMANDS_SESSION_TREE_H_
