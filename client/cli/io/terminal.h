#ifndef TVQ_CLIENT_CLI_IO_TERMINAL_H_
#define TVQ_CLIENT_CLI_IO_TERMINAL_H_

namespace tvq::cli {

// Ends the line in which the terminal's cursor stands: behind ^C, or behind a text that broke off.
// Nothing where neither stdout nor stderr is a terminal.
void EndTerminalLine();

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_TERMINAL_H_
