#ifndef TVQ_CLIENT_CLI_IO_TERMINAL_H_
#define TVQ_CLIENT_CLI_IO_TERMINAL_H_

#include <string>
#include <string_view>

namespace tvq::cli {

// Ends the line in which the terminal's cursor stands: behind ^C, or behind a text that broke off.
// Nothing where neither stdout nor stderr is a terminal.
void EndTerminalLine();

// Whether stdout is a terminal that can show text in another style.
bool ShowsStyles();

// What may be shown in a terminal, in one line: control characters become '?'.
std::string Shown(std::string_view text);

// On stdout at once, also into a pipe: somebody waits for it.
void PrintLine(const std::string& line);

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_TERMINAL_H_
