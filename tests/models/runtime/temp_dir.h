#ifndef TVQ_TESTS_MODELS_RUNTIME_TEMP_DIR_H_
#define TVQ_TESTS_MODELS_RUNTIME_TEMP_DIR_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

namespace tvq::fixtures {

// A directory of its own for one test, removed with all its files at the end.
class TempDir {
 public:
  TempDir() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tvq-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;

  const std::string& path() const { return path_; }

  // Writes a file and returns its path.
  std::string Write(std::string_view name, std::string_view content) const {
    const std::string file = path_ + "/" + std::string(name);
    std::ofstream(file, std::ios::binary).write(content.data(), std::ssize(content));
    return file;
  }

 private:
  std::string path_;
};

}  // namespace tvq::fixtures

#endif  // TVQ_TESTS_MODELS_RUNTIME_TEMP_DIR_H_
