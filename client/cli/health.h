#ifndef TVQ_CLIENT_CLI_HEALTH_H_
#define TVQ_CLIENT_CLI_HEALTH_H_

#include "base/flags.h"
#include "client/cli/command.h"

namespace tvq::cli {

// tvq health, as the functions of command.h add the other subcommands.
void AddHealth(flags::Command app, Globals& globals);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_HEALTH_H_
