#include "client/cli/io/terminal.h"

#include <unistd.h>

#include <algorithm>
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

std::string Shown(std::string_view text) {
  std::string shown(text);
  std::replace_if(
      shown.begin(), shown.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, '?');
  return shown;
}

void PrintLine(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

}  // namespace tvq::cli
