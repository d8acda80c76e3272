// What is wrong with a command line, in the programs' words instead of CLI11's.
#ifndef TVQ_BASE_FLAG_ERRORS_H_
#define TVQ_BASE_FLAG_ERRORS_H_

#include <string>
#include <vector>

#include "base/flags.h"

namespace CLI {
class Error;
}  // namespace CLI

namespace tvq::flags {

// The subcommands of `app` that can be named.
std::vector<const CLI::App*> CommandsOf(const CLI::App* app);

// The whole text for stderr, of a `word` that is none of the commands of `app`. `hints`: what to
// tell of an argument that a command does not expect.
std::string UnknownCommandError(const CLI::App* app, const std::string& word,
                                const Command::Hints& hints);

// The same of what parsing `words`, the whole command line of the program `app`, ended with.
std::string CommandLineError(const CLI::App* app, const CLI::Error& error,
                             const std::vector<std::string>& words, const Command::Hints& hints);

}  // namespace tvq::flags

#endif  // TVQ_BASE_FLAG_ERRORS_H_
