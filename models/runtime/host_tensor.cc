#include "models/runtime/host_tensor.h"

#include <array>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace tvq {
namespace {

struct DTypeInfo {
  std::string_view name;
  std::size_t size;
};

// In the order of HostDType.
constexpr std::array<DTypeInfo, 13> kDTypes = {{{"F64", 8},
                                                {"F32", 4},
                                                {"F16", 2},
                                                {"BF16", 2},
                                                {"I64", 8},
                                                {"I32", 4},
                                                {"I16", 2},
                                                {"I8", 1},
                                                {"U64", 8},
                                                {"U32", 4},
                                                {"U16", 2},
                                                {"U8", 1},
                                                {"BOOL", 1}}};
static_assert(kDTypes.size() == static_cast<std::size_t>(HostDType::kBool) + 1);

}  // namespace

std::size_t ElementSize(HostDType dtype) { return kDTypes[static_cast<std::size_t>(dtype)].size; }

std::string_view DTypeName(HostDType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}

std::optional<HostDType> DTypeFromName(std::string_view name) {
  for (std::size_t i = 0; i < kDTypes.size(); ++i) {
    if (kDTypes[i].name == name) return static_cast<HostDType>(i);
  }
  return std::nullopt;
}

int64_t HostTensor::ElementCount() const {
  // Zero first: the other sizes of an empty tensor are unbounded, their product could overflow.
  for (const int64_t size : shape) {
    if (size == 0) return 0;
  }
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::size_t HostTensor::ByteSize() const {
  return static_cast<std::size_t>(ElementCount()) * ElementSize(dtype);
}

std::string ShapeString(std::span<const int64_t> shape) {
  return absl::StrCat("[", absl::StrJoin(shape.begin(), shape.end(), ", "), "]");
}

}  // namespace tvq
