#include "models/runtime/tokenizer/sentencepiece_library.h"

#include <dlfcn.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

constexpr char kFileName[] = "libtvq_sentencepiece.so";

std::vector<std::string> Candidates() {
  if (const char* path = getenv("TVQ_SENTENCEPIECE_LIBRARY"); path != nullptr) return {path};
  std::vector<std::string> paths;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (!error) {
    const std::filesystem::path folder = program.parent_path();
    paths.push_back((folder.parent_path() / "lib" / kFileName).string());
    paths.push_back((folder / kFileName).string());
  }
  paths.push_back(TVQ_SENTENCEPIECE_BUILD_PATH);
  return paths;
}

absl::StatusOr<const TvqSentencePieceApi*> Load() {
  std::string tried;
  for (const std::string& path : Candidates()) {
    void* library = dlmopen(LM_ID_NEWLM, path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      absl::StrAppend(&tried, "; ", dlerror());
      continue;
    }
    const void* symbol = dlsym(library, "tvq_sentencepiece_api");
    if (symbol != nullptr) return static_cast<const TvqSentencePieceApi*>(symbol);
    absl::StrAppend(&tried, "; ", dlerror());
    dlclose(library);
  }
  return absl::FailedPreconditionError(
      absl::StrCat("cannot load ", kFileName, ", which SentencePiece tokenizers need", tried));
}

}  // namespace

absl::StatusOr<const TvqSentencePieceApi*> SentencePieceLibrary() {
  static const absl::StatusOr<const TvqSentencePieceApi*> library = Load();
  return library;
}

}  // namespace tvq
