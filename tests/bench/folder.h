// A folder for the files of a bench.
#ifndef TVQ_TESTS_BENCH_FOLDER_H_
#define TVQ_TESTS_BENCH_FOLDER_H_

#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace tvq::bench {

// Goes with its files.
class Folder {
 public:
  // In `parent`; in the system's folder for temporary files where that is empty.
  static absl::StatusOr<Folder> Create(const std::string& parent);
  Folder(Folder&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  Folder& operator=(Folder&&) = delete;
  ~Folder();
  const std::string& path() const { return path_; }

  // Lets the system forget what it holds of the files, so that they are read from the disk.
  void DropCache() const;

 private:
  explicit Folder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace tvq::bench

#endif  // TVQ_TESTS_BENCH_FOLDER_H_
