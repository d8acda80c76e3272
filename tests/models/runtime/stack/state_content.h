// The sections of a state as a map, to be changed and loaded.
#ifndef TVQ_TESTS_MODELS_RUNTIME_STACK_STATE_CONTENT_H_
#define TVQ_TESTS_MODELS_RUNTIME_STACK_STATE_CONTENT_H_

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/runtime/state.h"

namespace tvq {

using Content = std::map<std::string, std::vector<std::byte>>;

inline Content ContentOf(const State& state) {
  Content content;
  const std::vector<SectionInfo> sections = state.Sections();
  size_t next = 0;
  const absl::Status status =
      state.VisitSections([&](const SectionInfo& section, std::span<const std::byte> bytes) {
        if (next == 0 || section != sections[next - 1]) {
          EXPECT_EQ(section, sections[next]);
          ++next;
        }
        std::vector<std::byte>& all = content[section.name];
        all.insert(all.end(), bytes.begin(), bytes.end());
        return absl::OkStatus();
      });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(next, sections.size());
  for (const SectionInfo& section : sections) {
    EXPECT_EQ(content[section.name].size(), static_cast<size_t>(section.bytes)) << section.name;
  }
  return content;
}

inline absl::Status LoadContent(State& state, int64_t position, const Content& content) {
  return state.Load(position, [&](const SectionInfo& section, std::span<std::byte> out) {
    const std::vector<std::byte>& bytes = content.at(section.name);
    EXPECT_EQ(bytes.size(), out.size()) << section.name;
    std::copy(bytes.begin(), bytes.end(), out.begin());
    return absl::OkStatus();
  });
}

template <typename T>
void Set(Content& content, const std::string& section, size_t index, T value) {
  ASSERT_LE((index + 1) * sizeof(T), content.at(section).size());
  std::memcpy(content.at(section).data() + index * sizeof(T), &value, sizeof(T));
}

template <typename T>
std::vector<T> ValuesOf(const Content& content, const std::string& section) {
  const std::vector<std::byte>& bytes = content.at(section);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace tvq

#endif  // TVQ_TESTS_MODELS_RUNTIME_STACK_STATE_CONTENT_H_
