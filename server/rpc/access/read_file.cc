#include "server/rpc/access/read_file.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace tvq {

absl::StatusOr<std::string> ReadFile(const std::string& what, const std::string& file) {
  std::ifstream in(file, std::ios::binary);
  std::string text;
  std::array<char, 4096> piece;
  while (in.read(piece.data(), piece.size()) || in.gcount() > 0) {
    text.append(piece.data(), static_cast<size_t>(in.gcount()));
  }
  if (!in.is_open() || in.bad()) {
    return absl::NotFoundError(
        absl::StrCat(what, " ", file, ": cannot be read: ", std::strerror(errno)));
  }
  return text;
}

}  // namespace tvq
