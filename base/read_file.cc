#include "base/read_file.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/quoted.h"

namespace tvq {
namespace {

bool IsPipe(int descriptor) {
  struct stat info;
  return fstat(descriptor, &info) == 0 && S_ISFIFO(info.st_mode);
}

void AwaitInput(int descriptor) {
  pollfd input = {.fd = descriptor, .events = POLLIN, .revents = 0};
  poll(&input, 1, /*timeout=*/-1);
}

}  // namespace

absl::StatusOr<OpenedFile> OpenRegularFile(const std::string& path) {
  // Without O_NONBLOCK the open of a named pipe would wait for a writer.
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
  struct stat info;
  if (fstat(descriptor, &info) != 0 || !S_ISREG(info.st_mode)) {
    close(descriptor);
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  }
  return OpenedFile{descriptor, static_cast<int64_t>(info.st_size)};
}

absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes) {
  absl::StatusOr<OpenedFile> file = OpenRegularFile(path);
  if (!file.ok()) return file.status();
  absl::Cleanup closer = [&] { close(file->descriptor); };
  if (file->size > max_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", file->size, " bytes; the largest accepted is ", max_bytes));
  }
  std::string content(static_cast<size_t>(file->size), '\0');
  size_t done = 0;
  while (done < content.size()) {
    const ssize_t got = read(file->descriptor, content.data() + done, content.size() - done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
    if (got == 0) break;  // the file shrank
    done += static_cast<size_t>(got);
  }
  content.resize(done);
  return content;
}

absl::StatusOr<std::string> ReadNamedFile(const std::string& what, const std::string& file,
                                          Pipes pipes, int64_t max_bytes) {
  const auto failed = [&](std::string_view why) {
    return absl::NotFoundError(
        absl::StrCat(what, " ", file, ": cannot be read: ", std::string(why)));
  };
  const bool waits = pipes == Pipes::kWait;
  // Without O_NONBLOCK it would wait for a writer here.
  const int descriptor = open(file.c_str(), O_RDONLY | O_CLOEXEC | (waits ? 0 : O_NONBLOCK));
  if (descriptor < 0) return failed(std::strerror(errno));
  const absl::Cleanup closer = [&] { close(descriptor); };
  std::string text;
  std::array<char, 4096> piece;
  while (true) {
    const ssize_t got = read(descriptor, piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN && pipes == Pipes::kWaitIfWritten) {
      AwaitInput(descriptor);
      continue;
    }
    // Without a writer it is at its end.
    const bool is_silent =
        got < 0 ? errno == EAGAIN : got == 0 && text.empty() && IsPipe(descriptor);
    if (is_silent && !waits) return failed("it is a pipe through which nothing comes");
    if (got < 0) return failed(std::strerror(errno));
    if (got == 0) return text;
    text.append(piece.data(), static_cast<size_t>(got));
    if (static_cast<int64_t>(text.size()) > max_bytes) {
      return failed(absl::StrCat("it has more than ", max_bytes, " bytes"));
    }
  }
}

absl::Status CheckPlainFileName(std::string_view what, std::string_view name) {
  const bool plain = !name.empty() && name != "." && name != ".." &&
                     name.find('/') == std::string_view::npos &&
                     name.find('\0') == std::string_view::npos;
  if (plain) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(std::string(what), " is ", Quoted(name),
                   "; it must be the plain name of a file in the model directory"));
}

}  // namespace tvq
