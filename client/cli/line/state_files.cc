#include "client/cli/line/state_files.h"

#include <sys/stat.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

// Of a variable that names a folder from the root on; "" if it does not.
std::string Folder(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && value[0] == '/' ? value : "";
}

}  // namespace

std::string StateFile(const std::string& name) {
  const std::string state = Folder("XDG_STATE_HOME");
  if (!state.empty()) return absl::StrCat(state, "/tvq/", name);
  const std::string home = Folder("HOME");
  return home.empty() ? "" : absl::StrCat(home, "/.local/state/tvq/", name);
}

void MakeFoldersOf(const std::string& file) {
  for (size_t slash = file.find('/', 1); slash != std::string::npos;
       slash = file.find('/', slash + 1)) {
    mkdir(file.substr(0, slash).c_str(), 0700);
  }
}

}  // namespace tvq::cli
