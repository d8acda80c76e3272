#include "client/cli/line/thinking.h"

#include <algorithm>
#include <utility>

namespace tvq::cli {
namespace {

constexpr std::string_view kBegin = "<think>";
constexpr std::string_view kEnd = "</think>";
constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kNormal = "\033[22m";

}  // namespace

std::string DimmedThinking::Show(std::string_view piece) {
  if (place_ == Place::kBehind) return std::string(piece);
  if (place_ == Place::kBeginning) {
    held_ += piece;
    const size_t first = std::min(held_.find_first_not_of(" \t\r\n"), held_.size());
    const std::string_view begun = std::string_view(held_).substr(first);
    if (begun.size() < kBegin.size() && kBegin.starts_with(begun)) return "";
    std::string all = std::exchange(held_, "");
    if (!std::string_view(all).substr(first).starts_with(kBegin)) {
      place_ = Place::kBehind;
      return all;
    }
    place_ = Place::kThinking;
    return std::string(kDim) + Show(all);
  }
  std::string shown(piece);
  const size_t before = held_.size();
  held_ += piece;
  if (const size_t end = held_.find(kEnd); end != std::string::npos) {
    place_ = Place::kBehind;
    shown.insert(end + kEnd.size() - before, kNormal);
  } else {
    held_.erase(0, held_.size() - std::min(held_.size(), kEnd.size() - 1));
  }
  return shown;
}

std::string DimmedThinking::End() {
  if (place_ == Place::kThinking) return std::string(kNormal);
  return place_ == Place::kBeginning ? std::exchange(held_, "") : "";
}

}  // namespace tvq::cli
