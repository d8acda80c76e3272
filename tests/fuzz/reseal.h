// Checksums of mutated snapshots made right again: a fuzzer would never guess one, and whoever
// writes a snapshot can compute them.
#ifndef TVQ_TESTS_FUZZ_RESEAL_H_
#define TVQ_TESTS_FUZZ_RESEAL_H_

#include <xxhash.h>

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <span>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace tvq::fuzz {

// Of the frame at the beginning of `bytes`, as far as it is one; returns what follows its sections.
inline std::span<uint8_t> Reseal(std::span<uint8_t> bytes) {
  uint64_t seed = 0;
  const auto seal = [&](size_t size) {
    const uint64_t checksum = XXH3_64bits_withSeed(bytes.data(), size, seed);
    std::memcpy(bytes.data() + size, &checksum, sizeof(checksum));
    bytes = bytes.subspan(size + sizeof(checksum));
    return checksum;
  };
  uint32_t length = 0;
  if (bytes.size() < 32) return {};
  std::memcpy(&length, bytes.data() + 16, sizeof(length));
  if (length > bytes.size() - 32) return {};
  const auto* text = reinterpret_cast<const char*>(bytes.data()) + 24;
  const auto header = nlohmann::json::parse(text, text + length, nullptr, false);
  seed = seal(24 + length);

  std::vector<nlohmann::json> sizes;
  if (header.is_object() && header.contains("sections")) {
    for (const auto& section : header["sections"]) {
      sizes.push_back(section.is_object() ? section.value("bytes", nlohmann::json()) : section);
    }
  } else if (header.is_object()) {
    sizes = {header.value("transcript_bytes", nlohmann::json()),
             header.value("outcomes_bytes", nlohmann::json())};
  }
  for (const nlohmann::json& size : sizes) {
    ++seed;
    const bool fits =
        size.is_number_unsigned() && bytes.size() >= 8 && size.get<uint64_t>() <= bytes.size() - 8;
    if (!fits) return {};
    seal(size.get<size_t>());
  }
  return bytes;
}

// For LLVMFuzzerCustomMutator: mostly right checksums, sometimes not.
inline size_t MutateAndReseal(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 == 0) return size;
  const std::span<uint8_t> rest = Reseal({data, size});
  if (!rest.empty()) Reseal(rest);
  return size;
}

}  // namespace tvq::fuzz

#endif  // TVQ_TESTS_FUZZ_RESEAL_H_
