#include "client/cli/io/input.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"

namespace tvq::cli {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 20;

}  // namespace

std::string InputName(const std::string& path) { return path == "-" ? "stdin" : path; }

Input::Input(std::string path, std::string what, Content content)
    : path_(std::move(path)),
      what_(std::move(what)),
      content_(content),
      file_(nullptr, [](std::FILE* file) { return file == stdin ? 0 : std::fclose(file); }) {}

absl::Status Input::Failure() const {
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", InputName(path_)));
}

absl::Status Input::Open() {
  file_.reset(path_ == "-" ? stdin : std::fopen(path_.c_str(), "rb"));
  if (!file_) return Failure();
  if (isatty(fileno(file_.get())) != 1) return absl::OkStatus();
  if (content_ == Content::kBinary) {
    return absl::InvalidArgumentError(absl::StrCat(InputName(path_),
                                                   ": a terminal cannot give the ", what_,
                                                   "; name a file, or pipe one into stdin"));
  }
  std::fprintf(stderr, "tvq: type the %s; Ctrl-D at the beginning of a line ends it\n",
               what_.c_str());
  return absl::OkStatus();
}

absl::StatusOr<std::string> Input::Read() {
  if (std::feof(file_.get()) != 0) return "";  // a terminal would be asked for another Ctrl-D
  std::string piece(kPieceBytes, '\0');
  piece.resize(std::fread(piece.data(), 1, piece.size(), file_.get()));
  if (std::ferror(file_.get()) != 0) return Failure();
  return piece;
}

absl::Status ReadInput(const std::string& path, std::string* bytes, const std::string& what,
                       Content content) {
  Input input(path, what, content);
  if (const absl::Status status = input.Open(); !status.ok()) return status;
  bytes->clear();
  while (true) {
    const absl::StatusOr<std::string> piece = input.Read();
    if (!piece.ok()) return piece.status();
    if (piece->empty()) return absl::OkStatus();
    bytes->append(*piece);
  }
}

}  // namespace tvq::cli
