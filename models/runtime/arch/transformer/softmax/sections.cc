#include "models/runtime/arch/transformer/softmax/sections.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/section_checks.h"

namespace tvq::transformer {
namespace {

// Calls copy(section, page, count): `count` neighbours at byte `section` of a section and at byte
// `page` of `pages`.
template <typename Copy>
void ForEachKey(const KeyValueShape& shape, int64_t position, const Copy& copy) {
  const auto element = static_cast<int64_t>(SizeOf(shape.dtype));
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    for (int64_t p = 0; p < position; ++p) {
      const int64_t page = p / kKeyValuePage * shape.LayerBytes();
      for (int64_t i = 0; i < shape.key; ++i) {
        const int64_t at = ((g * position + p) * shape.key + i) * element;
        copy(at, page + shape.KeyIndex(g, p % kKeyValuePage, i) * element, element);
      }
    }
  }
}

template <typename Copy>
void ForEachValue(const KeyValueShape& shape, int64_t position, const Copy& copy) {
  const auto element = static_cast<int64_t>(SizeOf(shape.dtype));
  const int64_t row = shape.value * element;
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    for (int64_t p = 0; p < position; ++p) {
      const int64_t page = p / kKeyValuePage * shape.LayerBytes() + shape.ValueOffset();
      copy((g * position + p) * row, page + shape.ValueIndex(g, p % kKeyValuePage) * element, row);
    }
  }
}

template <typename Copy>
void ForEachRun(const KeyValueShape& shape, int64_t section, int64_t position, const Copy& copy) {
  if (section == 0) {
    ForEachKey(shape, position, copy);
  } else {
    ForEachValue(shape, position, copy);
  }
}

}  // namespace

std::array<SectionInfo, kCacheSections> CacheSections(const KeyValueShape& shape, int64_t layer,
                                                      int64_t position) {
  const auto element = static_cast<int64_t>(SizeOf(shape.dtype));
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  return {MakeSection(prefix + "key", element, {shape.kv_heads, position, shape.key}),
          MakeSection(prefix + "value", element, {shape.kv_heads, position, shape.value})};
}

absl::Status VisitCache(const KeyValueShape& shape, int64_t layer, int64_t position,
                        std::span<const std::byte> pages, int64_t skipped,
                        const State::SectionVisitor& visit) {
  const auto sections = CacheSections(shape, layer, position);
  std::vector<std::byte> run;
  absl::Status s;
  for (int64_t i = skipped; s.ok() && i < kCacheSections; ++i) {
    const SectionInfo& info = sections[static_cast<size_t>(i)];
    run.resize(static_cast<size_t>(info.bytes));
    ForEachRun(shape, i, position, [&](int64_t at, int64_t from, int64_t bytes) {
      std::memcpy(run.data() + at, pages.data() + from, static_cast<size_t>(bytes));
    });
    s = visit(info, run);
  }
  return s;
}

absl::Status ReadCache(const KeyValueShape& shape, int64_t layer, int64_t position,
                       const State::SectionReader& read, std::span<std::byte> pages) {
  const auto sections = CacheSections(shape, layer, position);
  std::vector<std::byte> run;
  absl::Status s;
  for (int64_t i = 0; s.ok() && i < kCacheSections; ++i) {
    const SectionInfo& info = sections[static_cast<size_t>(i)];
    run.resize(static_cast<size_t>(info.bytes));
    s = read(info, run);
    // The vector's memory is aligned for any scalar.
    if (s.ok()) s = CheckFinite(info, shape.dtype, run.data());
    if (!s.ok()) return s;
    ForEachRun(shape, i, position, [&](int64_t at, int64_t to, int64_t bytes) {
      std::memcpy(pages.data() + to, run.data() + at, static_cast<size_t>(bytes));
    });
  }
  return s;
}

}  // namespace tvq::transformer
