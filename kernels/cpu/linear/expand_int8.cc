// int8 panels to bfloat16 panels, through the cache: what a tile reads next to the weights' own
// bytes.
#include "kernels/cpu/linear/tile.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/linear/expand_int8.cc"
#include "hwy/foreach_target.h"
// clang-format off
#include "hwy/highway.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tvq {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kPanelOutputs>;
using Words = hn::RebindToUnsigned<Floats>;
using Ints = hn::RebindToSigned<Floats>;

// Byte kByte of each word, as the bits of a float32; the lower half is zero.
template <int kByte>
HWY_INLINE hn::Vec<Words> WidenByte(hn::Vec<Ints> four) {
  const auto top = hn::ShiftLeft<24 - 8 * kByte>(four);
  return hn::BitCast(Words(), hn::ConvertTo(Floats(), hn::ShiftRight<24>(top)));
}

// One panel: a word of a line is four steps of an output, which become a word in each of two lines.
void ExpandPanel(const int32_t* from, int64_t lines, uint32_t* to) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Words()));
  for (int64_t line = 0; line < lines; ++line) {
    for (int64_t o = 0; o < kPanelOutputs; o += lanes) {
      const auto four = hn::Load(Ints(), from + o);
      hn::Store(hn::Or(hn::ShiftRight<16>(WidenByte<0>(four)), WidenByte<1>(four)), Words(),
                to + o);
      hn::Store(hn::Or(hn::ShiftRight<16>(WidenByte<2>(four)), WidenByte<3>(four)), Words(),
                to + kPanelOutputs + o);
    }
    from += kPanelOutputs;
    to += 2 * kPanelOutputs;
  }
}

void ExpandInt8Impl(const void* panels, int64_t in, void* to) {
  const int64_t lines = PanelLines(in, DType::kInt8);
  const auto* from = static_cast<const int32_t*>(panels);
  auto* words = static_cast<uint32_t*>(to);
  // The second panel overwrites what the first wrote beyond its end.
  ExpandPanel(from, lines, words);
  ExpandPanel(from + lines * kPanelOutputs, lines,
              words + PanelLines(in, DType::kBFloat16) * kPanelOutputs);
}

}  // namespace HWY_NAMESPACE
}  // namespace tvq
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tvq {
namespace {

HWY_EXPORT(ExpandInt8Impl);

}  // namespace

void ExpandInt8(const void* panels, int64_t in, void* to) {
  HWY_DYNAMIC_DISPATCH(ExpandInt8Impl)(panels, in, to);
}

}  // namespace tvq
#endif  // HWY_ONCE
