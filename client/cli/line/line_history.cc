#include "client/cli/line/line_history.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/output_file.h"
#include "base/read_file.h"
#include "client/cli/line/state_files.h"

namespace tvq::cli {
namespace {

// A file may have more, of processes that add to it at once, before one of them cuts it.
constexpr int64_t kMostBytes = int64_t{1} << 28;

// In the file \n stands for a line feed and \\ for a backslash.
std::string Escaped(const std::string& line) {
  std::string escaped;
  for (const char c : line) {
    if (c == '\n') {
      escaped += "\\n";
    } else {
      escaped.append(c == '\\' ? 2 : 1, c);
    }
  }
  return escaped;
}

std::string Unescaped(const std::string& escaped) {
  std::string line;
  for (size_t i = 0; i < escaped.size(); ++i) {
    if (escaped[i] != '\\' || i + 1 == escaped.size()) {
      line += escaped[i];
    } else {
      ++i;
      line += escaped[i] == 'n' ? '\n' : escaped[i];
    }
  }
  return line;
}

}  // namespace

absl::StatusOr<std::vector<std::string>> LineHistory::Load() const {
  const auto text = ReadFile(path_, kMostBytes);
  if (absl::IsNotFound(text.status())) return std::vector<std::string>();
  if (!text.ok()) return text.status();
  std::vector<std::string> kept = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  size_t bytes = 0, begin = kept.size();
  while (begin > 0 && kept.size() - begin < limits_.lines &&
         bytes + kept[begin - 1].size() + 1 <= limits_.bytes) {
    bytes += kept[--begin].size() + 1;
  }
  kept.erase(kept.begin(), kept.begin() + static_cast<std::ptrdiff_t>(begin));
  if (begin > 0) {
    OutputFile file(path_, Readers::kOwner);
    absl::Status status = file.Open();
    for (const std::string& line : kept) {
      if (status.ok()) status = file.Write(absl::StrCat(line, "\n"));
    }
    if (status.ok()) status = file.Commit();
    if (!status.ok()) return status;
  }
  std::transform(kept.begin(), kept.end(), kept.begin(), Unescaped);
  return kept;
}

absl::Status LineHistory::Add(const std::string& line) const {
  const std::string entry = absl::StrCat(Escaped(line), "\n");
  if (entry.size() > limits_.bytes / 2) return absl::OkStatus();
  MakeFoldersOf(path_);
  const int descriptor = open(path_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
  struct stat now{};
  const bool written =
      descriptor >= 0 &&
      write(descriptor, entry.data(), entry.size()) == static_cast<ssize_t>(entry.size()) &&
      fstat(descriptor, &now) == 0;
  absl::Status status =
      written ? absl::OkStatus() : absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
  if (descriptor >= 0) close(descriptor);
  // Not at each line that is one too many.
  if (status.ok() && static_cast<size_t>(now.st_size) > 2 * limits_.bytes) status = Load().status();
  return status;
}

}  // namespace tvq::cli
