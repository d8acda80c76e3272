#include "client/cli/io/terminal.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace tvq::cli {

void EndTerminalLine() {
  if (isatty(STDOUT_FILENO) == 1) {
    std::printf("\n");
    std::fflush(stdout);
  } else if (isatty(STDERR_FILENO) == 1) {
    std::fputs("\n", stderr);
  }
}

bool ShowsStyles() {
  const char* const term = std::getenv("TERM");
  return isatty(STDOUT_FILENO) == 1 && term != nullptr && *term != '\0' &&
         std::string_view(term) != "dumb";
}

void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace tvq::cli
