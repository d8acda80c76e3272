#include "models/runtime/tokenizer/charsmap.h"

#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace tvq {
namespace {

// Normalizer::kMaxTrieResultsSize: how many matching prefixes of a text the library has room for.
constexpr int kMostMatches = 32;
// Limits the depth of recursion; real keys are a few characters.
constexpr int kLongestKey = 1000;

// One unit of a double array; the bit layout is Darts-clone's.
class Unit {
 public:
  explicit Unit(uint32_t bits) : bits_(bits) {}
  bool has_leaf() const { return ((bits_ >> 8) & 1) == 1; }
  uint32_t value() const { return bits_ & 0x7fffffff; }
  uint32_t label() const { return bits_ & 0x800000ff; }  // of a value unit it is no byte
  uint32_t offset() const { return (bits_ >> 10) << ((bits_ & (1u << 9)) >> 6); }

 private:
  uint32_t bits_;
};

class TrieChecker {
 public:
  TrieChecker(std::string_view units, size_t strings_size)
      : units_(units), strings_size_(strings_size), most_matches_(size(), kUnseen) {}

  absl::Status Check() {
    const int matches = Visit(0, 0);
    if (matches > kMostMatches) {
      Fail(absl::StrCat("has a key with ", matches, " prefixes; the most are ", kMostMatches));
    }
    return status_;
  }

 private:
  static constexpr int kUnseen = -1;
  static constexpr int kOpen = -2;

  size_t size() const { return units_.size() / sizeof(uint32_t); }

  Unit At(size_t index) const {
    uint32_t bits = 0;
    std::memcpy(&bits, units_.data() + index * sizeof bits, sizeof bits);
    return Unit(bits);
  }

  int Fail(std::string problem) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(problem);
    return 0;
  }

  // The most matches on any path down from a node. Nodes may be shared (the array holds a minimal
  // automaton), so each is visited only once.
  int Visit(size_t index, int depth) {
    if (most_matches_[index] >= 0) return most_matches_[index];
    if (most_matches_[index] == kOpen) return Fail("leads in a circle");
    if (depth > kLongestKey) {
      return Fail(absl::StrCat("has a key longer than ", kLongestKey, " bytes"));
    }
    const Unit unit = At(index);
    const size_t base = index ^ unit.offset();
    // The children are base ^ byte, so this is the last index of their block.
    if ((base | 0xff) >= size()) {
      return Fail(absl::StrCat("leads from unit ", index, " outside its ", size(), " units"));
    }
    most_matches_[index] = kOpen;
    int most = 0;
    for (uint32_t byte = 0; byte < 256 && status_.ok(); ++byte) {
      const size_t child = base ^ byte;
      if (At(child).label() == byte) most = std::max(most, Visit(child, depth + 1));
    }
    // The root's own leaf is an empty key, which the library never looks up.
    if (unit.has_leaf() && index != 0) {
      ++most;
      if (At(base).value() >= strings_size_) {
        return Fail(absl::StrCat("has a value ", At(base).value(), " outside its ", strings_size_,
                                 " bytes of strings"));
      }
    }
    return most_matches_[index] = most;
  }

  const std::string_view units_;
  const size_t strings_size_;
  std::vector<int> most_matches_;
  absl::Status status_;
};

}  // namespace

absl::Status CheckCharsmap(std::string_view map) {
  if (map.empty()) return absl::OkStatus();
  uint32_t trie_size = 0;
  if (map.size() < sizeof trie_size) return absl::InvalidArgumentError("is cut short");
  std::memcpy(&trie_size, map.data(), sizeof trie_size);
  map.remove_prefix(sizeof trie_size);
  if (trie_size == 0 || trie_size % sizeof(uint32_t) != 0 || trie_size > map.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("says its trie has ", trie_size, " bytes, where ", map.size(), " follow"));
  }
  const std::string_view strings = map.substr(trie_size);
  if (strings.empty() || strings.back() != '\0') {
    return absl::InvalidArgumentError("has a last string without an end");
  }
  return TrieChecker(map.substr(0, trie_size), strings.size()).Check();
}

}  // namespace tvq
