#include "tests/bench/folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "absl/strings/str_cat.h"

namespace tvq::bench {

absl::StatusOr<Folder> Folder::Create(const std::string& parent) {
  std::string path = absl::StrCat(
      parent.empty() ? std::filesystem::temp_directory_path().string() : parent, "/tvq-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) {
    return absl::UnavailableError(absl::StrCat("cannot make a folder like ", path));
  }
  return Folder(std::move(path));
}

Folder::~Folder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

void Folder::DropCache() const {
  for (const auto& file : std::filesystem::recursive_directory_iterator(path_)) {
    if (!file.is_regular_file()) continue;
    const int fd = open(file.path().c_str(), O_RDONLY);
    if (fd < 0) continue;
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
  }
}

}  // namespace tvq::bench
