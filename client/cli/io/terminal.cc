#include "client/cli/io/terminal.h"

#include <unistd.h>

#include <cstdio>

namespace tvq::cli {

void EndTerminalLine() {
  if (isatty(STDOUT_FILENO) == 1) {
    std::printf("\n");
    std::fflush(stdout);
  } else if (isatty(STDERR_FILENO) == 1) {
    std::fputs("\n", stderr);
  }
}

}  // namespace tvq::cli
