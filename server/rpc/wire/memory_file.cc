#include "server/rpc/wire/memory_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

absl::Status SystemError(const char* call) {
  return absl::InternalError(absl::StrCat("a file in memory: ", call, ": ", std::strerror(errno)));
}

}  // namespace

MemoryFile::~MemoryFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

absl::Status MemoryFile::Replace(std::string_view text) {
  const int made = memfd_create("tvq", MFD_CLOEXEC);
  if (made < 0) return SystemError("memfd_create");
  absl::Cleanup close_made = [made] { close(made); };
  while (!text.empty()) {
    const ssize_t written = write(made, text.data(), text.size());
    if (written < 0 && errno != EINTR) return SystemError("write");
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  if (descriptor_ < 0) {
    descriptor_ = made;
    std::move(close_made).Cancel();
  } else if (dup3(made, descriptor_, O_CLOEXEC) < 0) {
    return SystemError("dup3");
  }
  return absl::OkStatus();
}

std::string MemoryFile::path() const {
  return descriptor_ < 0 ? "" : absl::StrCat("/proc/self/fd/", descriptor_);
}

}  // namespace tvq
