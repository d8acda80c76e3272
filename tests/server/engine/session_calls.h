// Calls of a session on an engine over fake models.
#ifndef TVQ_TESTS_SERVER_ENGINE_SESSION_CALLS_H_
#define TVQ_TESTS_SERVER_ENGINE_SESSION_CALLS_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/server/engine/harness.h"
#include "tests/server/engine/test_session.h"

namespace tvq {

inline Request On(const TestSession& session, std::shared_ptr<RecordingSink> sink, Purpose purpose,
                  std::string_view prompt, SamplingParams sampling = {}) {
  Request request = Ask(std::move(sink), prompt, std::move(sampling));
  request.purpose = purpose;
  request.start = session.Start();
  request.keep = true;
  return request;
}

// Runs a call on the session and commits it.
inline std::shared_ptr<RecordingSink> Call(Engine& engine, TestSession& session, Purpose purpose,
                                           std::string_view prompt, SamplingParams sampling = {}) {
  auto sink = std::make_shared<RecordingSink>();
  const auto handle = engine.Submit(On(session, sink, purpose, prompt, std::move(sampling)));
  EXPECT_TRUE(handle.ok()) << handle.status();
  if (!handle.ok()) return sink;
  EXPECT_TRUE(sink->Wait().ok()) << sink->Wait();
  std::optional<Continuation> kept = sink->TakeKept();
  EXPECT_TRUE(kept);
  if (kept) session.Commit(*std::move(kept));
  return sink;
}

inline std::vector<int32_t> Joined(std::vector<int32_t> a, const std::vector<int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

}  // namespace tvq

#endif  // TVQ_TESTS_SERVER_ENGINE_SESSION_CALLS_H_
