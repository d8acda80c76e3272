#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/usable_cores.h"
#include "hwy/highway.h"
#include "kernels/cpu/cpu_device.h"
#include "kernels/cpu/linear/tile_amx.h"

namespace tvq {
namespace {

struct Isa {
  const char* name;
  int64_t target;  // Highway's bit
  DotInstructions dot;
  bool amx = false;
};

constexpr Isa kIsas[] = {
    {"scalar", HWY_SCALAR | HWY_EMU128, {}},
    {"sse4", HWY_SSE4, {}},
    {"avx2", HWY_AVX2, {}},
    {"avx-vnni", HWY_AVX2, {.int8_256 = true}},
    {"neon", HWY_NEON, {}},
    {"avx512", HWY_AVX3, {}},
    {"avx512-vnni", HWY_AVX3, {.int8 = true}},
    {"avx512-bf16", HWY_AVX3, {.bf16 = true, .int8 = true}},
    {"amx", HWY_AVX3, {.int8 = true}, true},
};

DotInstructions SupportedDot() {
#if defined(__x86_64__)
  return {.bf16 = __builtin_cpu_supports("avx512bf16") != 0,
          .int8 = __builtin_cpu_supports("avx512vnni") != 0,
          .int8_256 = __builtin_cpu_supports("avxvnni") != 0,
          .amx = UsableAmxTiles()};
#else
  return {};
#endif
}

// Whether VDPBF16PS computes more in the same time than float32 multiply-adds. On AMD's processors
// it computes twice as much (Zen 5: both start twice a cycle). On Intel's it computes half as much:
// a Xeon reached 70 GFLOP/s with it and 131 with multiply-adds, and read prompts 1.4 times as fast
// with the latter. The maker decides here and not a measurement, since bits must not depend on a
// measurement.
bool FastBf16Dot() {
#if defined(__x86_64__)
  return __builtin_cpu_is("amd") != 0;
#else
  return false;
#endif
}

bool Supports(const DotInstructions& supported, const Isa& isa) {
  return isa.dot.bf16 <= supported.bf16 && isa.dot.int8 <= supported.int8 &&
         isa.dot.int8_256 <= supported.int8_256 && (!isa.amx || supported.amx != nullptr);
}

// The best one last.
std::vector<Isa> Available() {
  const int64_t targets = HWY_TARGETS & (hwy::SupportedTargets() | HWY_SCALAR | HWY_EMU128);
  const DotInstructions dot = SupportedDot();
  std::vector<Isa> available;
  for (const Isa& isa : kIsas) {
    if ((isa.target & targets) != 0 && Supports(dot, isa)) available.push_back(isa);
  }
  const auto bf16 =
      std::find_if(available.begin(), available.end(), [](const Isa& isa) { return isa.dot.bf16; });
  if (bf16 != available.end() && !FastBf16Dot()) std::iter_swap(bf16, std::prev(bf16));
  return available;
}

}  // namespace

std::vector<std::string> AvailableIsas() {
  std::vector<std::string> names;
  for (const Isa& isa : Available()) names.emplace_back(isa.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Device>> MakeCpuDevice(int threads, std::string_view isa) {
  const std::vector<Isa> available = Available();
  const auto chosen =
      isa.empty() ? std::prev(available.end())
                  : std::find_if(available.begin(), available.end(),
                                 [isa](const Isa& candidate) { return isa == candidate.name; });
  if (chosen == available.end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("instruction set '", std::string(isa),
                     "': not available; available: ", absl::StrJoin(AvailableIsas(), ", ")));
  }
  hwy::GetChosenTarget().Update(chosen->target);
  DotInstructions dot = chosen->dot;
  if (chosen->amx) dot.amx = UsableAmxTiles();
  if (threads == 0) threads = UsableCores();
  return std::make_unique<CpuDevice>(
      &CpuBackend(), threads, dot,
      absl::StrCat("cpu (", chosen->name, ", ", threads, threads == 1 ? " thread)" : " threads)"));
}

std::unique_ptr<Device> MakeReferenceDevice() {
  return std::make_unique<CpuDevice>(&ReferenceBackend(), 1, DotInstructions(),
                                     "reference (float64, 1 thread)");
}

}  // namespace tvq
