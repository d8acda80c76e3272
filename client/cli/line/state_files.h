// What the command line keeps between its runs.
#ifndef TVQ_CLIENT_CLI_LINE_STATE_FILES_H_
#define TVQ_CLIENT_CLI_LINE_STATE_FILES_H_

#include <string>

namespace tvq::cli {

// The file of this name in $XDG_STATE_HOME/tvq or ~/.local/state/tvq; "" where there is no home.
std::string StateFile(const std::string& name);

// Makes the folders above the file that are missing, which only their owner can open. Whoever
// writes the file finds out whether it worked.
void MakeFoldersOf(const std::string& file);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_LINE_STATE_FILES_H_
