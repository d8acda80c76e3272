#include "models/runtime/arch/transformer/vq/sections.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "models/runtime/arch/transformer/section_checks.h"

namespace tvq::transformer {
namespace {

enum Part { kSum, kCarry, kCount, kCode, kValue };

int64_t Recent(const VqShape& shape, int64_t position) { return std::min(position, shape.window); }

// Calls copy(slot, index) for the ring's slots in the order of positions: `slot` counts the slots
// of all heads' rings, `index` those of the section. Both in elements of one position of one head.
template <typename Copy>
void ForEachRecent(const VqShape& shape, int64_t position, const Copy& copy) {
  const int64_t recent = Recent(shape, position);
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    for (int64_t i = 0; i < recent; ++i) {
      copy(g * shape.window + (position - recent + i) % shape.window, g * recent + i);
    }
  }
}

std::vector<std::byte> Unrolled(const VqShape& shape, int64_t position, const void* ring,
                                int64_t slot_bytes, const SectionInfo& info) {
  std::vector<std::byte> run(static_cast<size_t>(info.bytes));
  const auto* from = static_cast<const std::byte*>(ring);
  ForEachRecent(shape, position, [&](int64_t slot, int64_t index) {
    std::memcpy(run.data() + index * slot_bytes, from + slot * slot_bytes,
                static_cast<size_t>(slot_bytes));
  });
  return run;
}

absl::Status ReadRing(const VqShape& shape, int64_t position, const State::SectionReader& read,
                      int64_t slot_bytes, const SectionInfo& info, std::vector<std::byte>* run,
                      void* ring) {
  run->resize(static_cast<size_t>(info.bytes));
  if (absl::Status s = read(info, *run); !s.ok()) return s;
  auto* to = static_cast<std::byte*>(ring);
  ForEachRecent(shape, position, [&](int64_t slot, int64_t index) {
    std::memcpy(to + slot * slot_bytes, run->data() + index * slot_bytes,
                static_cast<size_t>(slot_bytes));
  });
  return absl::OkStatus();
}

absl::Status CheckCounts(const VqShape& shape, const SectionInfo& info, int64_t retired,
                         const int64_t* counts) {
  for (int64_t g = 0; g < shape.kv_heads; ++g) {
    int64_t rest = retired;  // of this head, in the rows to come
    for (int64_t s = 0; s < shape.codes; ++s) {
      const int64_t i = g * shape.codes + s;
      if (counts[i] < 0 || counts[i] > rest) {
        return InvalidElement(
            info, i,
            absl::StrCat("is ", counts[i], ", must be 0 to ", rest,
                         ": as many positions have retired and are not counted before"));
      }
      rest -= counts[i];
    }
    if (rest != 0) {
      return InvalidElement(
          info, g * shape.codes,
          absl::StrCat("and the ", shape.codes - 1, " after it add up to ", retired - rest,
                       ", must be ", retired, ": the position less the window"));
    }
  }
  return absl::OkStatus();
}

// Rows of codes that nothing retired to.
absl::Status CheckEmptyRows(const VqShape& shape, const SectionInfo& info, const int64_t* counts,
                            const float* values) {
  for (int64_t row = 0; row < shape.kv_heads * shape.codes; ++row) {
    if (counts[row] != 0) continue;
    const float* begin = values + row * shape.value;
    const float* found = std::find_if(begin, begin + shape.value, [](float v) { return v != 0; });
    if (found == begin + shape.value) continue;
    return InvalidElement(info, found - values,
                          absl::StrCat("is ", *found, ", must be 0: its count is"));
  }
  return absl::OkStatus();
}

absl::Status CheckCodes(const VqShape& shape, const SectionInfo& info,
                        const std::vector<std::byte>& run) {
  for (size_t i = 0; i < run.size() / sizeof(int32_t); ++i) {
    int32_t code;
    std::memcpy(&code, run.data() + i * sizeof(code), sizeof(code));
    if (code >= 0 && code < shape.codes) continue;
    return InvalidElement(info, static_cast<int64_t>(i),
                          absl::StrCat("is ", code, ", must be 0 to ", shape.codes - 1));
  }
  return absl::OkStatus();
}

absl::Status ReadValues(const VqShape& shape, int64_t position, const State::SectionReader& read,
                        const SectionInfo& info, void* ring) {
  const int64_t slot_bytes = shape.value * info.element_bytes;
  std::vector<std::byte> run;
  absl::Status s = ReadRing(shape, position, read, slot_bytes, info, &run, ring);
  if (!s.ok()) return s;
  // The vector's memory is aligned for any scalar.
  return CheckFinite(info, shape.value_dtype, run.data());
}

}  // namespace

std::array<SectionInfo, kVqSections> VqSections(const VqShape& shape, int64_t layer,
                                                int64_t position) {
  const int64_t heads = shape.kv_heads, recent = Recent(shape, position);
  const auto value_bytes = static_cast<int64_t>(SizeOf(shape.value_dtype));
  const std::string prefix = absl::StrCat("layers.", layer, ".");
  return {MakeSection(prefix + "acc_sum", 4, {heads, shape.codes, shape.value}),
          MakeSection(prefix + "acc_carry", 4, {heads, shape.codes, shape.value}),
          MakeSection(prefix + "acc_count", 8, {heads, shape.codes}),
          MakeSection(prefix + "win_code", 4, {heads, recent}),
          MakeSection(prefix + "win_value", value_bytes, {heads, recent, shape.value})};
}

absl::Status VisitVqSections(const VqShape& shape, int64_t layer, int64_t position,
                             const VqState& host, int64_t skipped,
                             const State::SectionVisitor& visit) {
  const auto sections = VqSections(shape, layer, position);
  const auto unrolled = [&](const SectionInfo& info, const void* ring, int64_t slot_bytes) {
    return visit(info, Unrolled(shape, position, ring, slot_bytes, info));
  };
  absl::Status s;
  for (int64_t part = skipped; s.ok() && part < kVqSections; ++part) {
    const SectionInfo& info = sections[static_cast<size_t>(part)];
    switch (part) {
      case kSum:
        s = visit(info, BytesOf(host.sum, info));
        break;
      case kCarry:
        s = visit(info, BytesOf(host.carry, info));
        break;
      case kCount:
        s = visit(info, BytesOf(host.count, info));
        break;
      case kCode:
        s = unrolled(info, host.window_code, sizeof(int32_t));
        break;
      default:
        s = unrolled(info, host.window_value, shape.value * info.element_bytes);
    }
  }
  return s;
}

absl::Status ReadVqSections(const VqShape& shape, int64_t layer, int64_t position,
                            const State::SectionReader& read, const VqState& host) {
  const auto sections = VqSections(shape, layer, position);
  absl::Status s = read(sections[kSum], BytesOf(host.sum, sections[kSum]));
  if (s.ok()) s = CheckFinite(sections[kSum], DType::kFloat32, host.sum);
  if (s.ok()) s = read(sections[kCarry], BytesOf(host.carry, sections[kCarry]));
  if (s.ok()) s = CheckFinite(sections[kCarry], DType::kFloat32, host.carry);
  if (s.ok()) s = read(sections[kCount], BytesOf(host.count, sections[kCount]));
  const int64_t retired = position - Recent(shape, position);
  if (s.ok()) s = CheckCounts(shape, sections[kCount], retired, host.count);
  if (s.ok()) s = CheckEmptyRows(shape, sections[kSum], host.count, host.sum);
  if (s.ok()) s = CheckEmptyRows(shape, sections[kCarry], host.count, host.carry);
  if (s.ok()) s = CheckCarries(sections[kCarry], host.sum, host.carry);
  if (!s.ok()) return s;
  std::vector<std::byte> codes;
  s = ReadRing(shape, position, read, sizeof(int32_t), sections[kCode], &codes, host.window_code);
  if (s.ok()) s = CheckCodes(shape, sections[kCode], codes);
  if (!s.ok()) return s;
  return ReadValues(shape, position, read, sections[kValue], host.window_value);
}

}  // namespace tvq::transformer
