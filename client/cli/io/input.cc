#include "client/cli/io/input.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

Input::Input(std::string path, std::string what)
    : path_(std::move(path)),
      what_(std::move(what)),
      file_(nullptr, [](std::FILE* file) { return file == stdin ? 0 : std::fclose(file); }) {}

absl::Status Input::Failure() const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path_ == "-" ? "stdin" : path_));
}

absl::Status Input::Open() {
  if (path_ == "-" && isatty(STDIN_FILENO) == 1) {
    std::fprintf(stderr, "tvq: type the %s; Ctrl-D at the beginning of a line ends it\n",
                 what_.c_str());
  }
  file_.reset(path_ == "-" ? stdin : std::fopen(path_.c_str(), "rb"));
  return file_ ? absl::OkStatus() : Failure();
}

absl::StatusOr<std::string> Input::Read() {
  if (std::feof(file_.get()) != 0) return "";  // a terminal would be asked for another Ctrl-D
  std::string piece(kPieceBytes, '\0');
  piece.resize(std::fread(piece.data(), 1, piece.size(), file_.get()));
  if (std::ferror(file_.get()) != 0) return Failure();
  return piece;
}

absl::Status ReadInput(const std::string& path, std::string* content, const std::string& what) {
  Input input(path, what);
  if (const absl::Status status = input.Open(); !status.ok()) return status;
  content->clear();
  while (true) {
    const absl::StatusOr<std::string> piece = input.Read();
    if (!piece.ok()) return piece.status();
    if (piece->empty()) return absl::OkStatus();
    content->append(*piece);
  }
}

}  // namespace tvq::cli
