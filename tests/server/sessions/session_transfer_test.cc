// Sessions as snapshots: exported, imported, used once without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/sessions/snapshot/frame.h"
#include "server/sessions/snapshot/snapshot.h"
#include "tests/server/sessions/byte_vector.h"
#include "tests/server/sessions/durable_harness.h"
#include "tests/server/sessions/memory_tier.h"
#include "tests/server/sessions/store_harness.h"
#include "tests/server/sessions/transfers.h"

namespace tvq {
namespace {

using ::testing::HasSubstr;

TEST(SessionTransferTest, AStreamSaysWhatItKeeps) {
  StoreHarness h;
  const std::string text(5000, 'x');
  const SessionCall call{.id = h.Create()}, silent{.id = h.Create({.keep_transcript = false})};
  ASSERT_TRUE(h.Append(call, text).ok());
  ASSERT_TRUE(h.Append(silent, text).ok());
  const auto stream = h.store->Export(call, {}), without = h.store->Export(silent, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_GE((*stream)->kept_bytes(), 5000 * int64_t{sizeof(int32_t)});
  EXPECT_GT((*without)->kept_bytes(), 0);
  EXPECT_LT((*without)->kept_bytes(), 5000);
}

TEST(SessionTransferTest, AnExportAsksForRoomBeforeItTakesIt) {
  DurableHarness h;
  const std::string text(5000, 'x');
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, text).ok());
  ASSERT_TRUE(h.store->Save(call).ok());
  h.Restart();
  h.disk->gets = 0;
  int asked = 0;
  const auto full = [&](int64_t kept, int64_t total) {
    ++asked;
    EXPECT_GE(kept, 5000 * int64_t{sizeof(int32_t)});
    EXPECT_GT(total, kept);
    return absl::ResourceExhaustedError("full");
  };
  EXPECT_TRUE(absl::IsResourceExhausted(h.store->Export(call, full).status()));
  EXPECT_EQ(asked, 1);
  EXPECT_EQ(h.disk->gets, 0) << "nothing was read";

  int64_t last_kept = 0, last_total = 0;
  const auto room = [&](int64_t kept, int64_t total) {
    EXPECT_GE(kept, last_kept);
    last_kept = kept;
    last_total = total;
    return absl::OkStatus();
  };
  const auto stream = h.store->Export(call, room);
  ASSERT_TRUE(stream.ok()) << stream.status();
  EXPECT_EQ((*stream)->kept_bytes(), last_kept);
  EXPECT_EQ((*stream)->total_bytes(), last_total);
}

TEST(SessionTransferTest, MovesASessionToAnotherServer) {
  StoreHarness from;
  const SessionCall call{.id = from.Create()};
  ASSERT_TRUE(from.Append(call, "hello", /*pending=*/true).ok());
  ASSERT_TRUE(from.store->Mark(call, "m").ok());
  const std::string snapshot = Export(from, call);

  StoreHarness to;
  const auto imported = Import(to, snapshot, {.ttl = absl::Hours(1), .label = "copy"});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_NE(imported->record.id, call.id);
  EXPECT_EQ(imported->record.version, 1);
  EXPECT_EQ(imported->record.label, "copy");
  EXPECT_TRUE(imported->record.marks.empty());
  const SessionCall copy{.id = imported->record.id};
  to.ExpectHolds(copy, "hello");
  ASSERT_TRUE(from.Append(call, " there").ok());
  ASSERT_TRUE(to.Append(copy, " there").ok());
  const auto image = [](StoreHarness& h, const SessionCall& c) {
    return h.Image(*h.Working((*h.store->Acquire(c))->Start())->state);
  };
  EXPECT_EQ(image(from, call), image(to, copy));
  EXPECT_EQ(Export(to, copy).size(),
            static_cast<size_t>((*to.store->Export(copy, {}))->total_bytes()));
}

TEST(SessionTransferTest, ExportsTheCommittedStateWhileAnotherCallWorks) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "done").ok());
  auto lease = h.store->Acquire(call);
  const auto stream = h.store->Export(call, {});
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_TRUE((*lease)->Commit(*h.Compute((*lease)->Start(), " and more"), "").ok());
  lease->reset();
  ASSERT_TRUE(h.store->Delete(call).ok());
  const auto imported = Import(h, Drain(**stream));
  ASSERT_TRUE(imported.ok()) << imported.status();
  h.ExpectHolds({.id = imported->record.id}, "done");
}

TEST(SessionTransferTest, MovesEmptySessionsToo) {
  StoreHarness h;
  const auto imported = Import(h, Export(h, {.id = h.Create()}));
  ASSERT_TRUE(imported.ok()) << imported.status();
  h.ExpectHolds({.id = imported->record.id}, "");
}

TEST(SessionTransferTest, CarriesWhetherSpecialTokensAreAdded) {
  StoreHarness from, to;
  const std::string id = from.Create({.add_special_tokens = false});
  const std::string snapshot = Export(from, {.id = id});
  EXPECT_FALSE(Import(to, snapshot)->record.add_special_tokens);
  EXPECT_TRUE(Import(to, snapshot, {.add_special_tokens = true})->record.add_special_tokens);
}

TEST(SessionTransferTest, CarriesHowTheAnswerEnded) {
  StoreHarness from, to;
  const SessionCall call{.id = from.Create()};
  ASSERT_TRUE(from.Append(call, "who?").ok());
  ASSERT_TRUE(from.Answer(call, "I").ok());
  ASSERT_TRUE(from.Append(call, ".").ok());
  const AnswerEnd end{"I.", 1, true};
  const std::string snapshot = Export(from, call);
  const auto imported = Import(to, snapshot);
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(to.EndOf({.id = imported->record.id}), end);

  const auto start = to.store->StartFrom("fake", Upload(to, snapshot));
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_EQ((*start)->answer_end, end);
  const auto stream = to.store->ToSnapshot("fake", *to.Compute(*start, "\n"));
  ASSERT_TRUE(stream.ok()) << stream.status();
  const auto again = to.store->StartFrom("fake", Upload(to, Drain(**stream)));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ((*again)->answer_end, (AnswerEnd{"I.\n", 2, true}));
}

TEST(SessionTransferTest, RefusesWhatIsNoSnapshotOfThisModel) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  const std::string good = Export(h, call);
  const auto code = [&](std::string_view bytes) { return Import(h, bytes).status().code(); };
  EXPECT_EQ(code(""), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(code(good + "x"), absl::StatusCode::kInvalidArgument);
  for (size_t cut = 0; cut < good.size(); cut += 11) {
    const auto status = Import(h, good.substr(0, cut)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status) || absl::IsOutOfRange(status)) << status;
  }
  for (size_t at = 0; at < good.size(); at += 5) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 16);
    const auto found = code(bad);
    EXPECT_TRUE(found == absl::StatusCode::kInvalidArgument ||
                found == absl::StatusCode::kFailedPrecondition)
        << "byte " << at << ": " << found;
  }
  EXPECT_EQ(Import(h, good, {.model = "none"}).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(h.store->stats().created, 1);
  EXPECT_EQ(h.harness.engine->budget().used(), 1000);
  EXPECT_TRUE(Import(h, good).ok());
}

// With another record than the exported one.
std::string Rewritten(const std::string& snapshot, const std::function<void(SnapshotHead&)>& edit) {
  const auto all = std::as_bytes(std::span(snapshot));
  fixtures::BytesSource source({all.begin(), all.end()});
  auto head = ReadSnapshotHead(&source);
  EXPECT_TRUE(head.ok()) << head.status();
  const auto image = static_cast<size_t>(head->state_bytes);
  edit(*head);
  fixtures::Bytes bytes;
  EXPECT_TRUE(WriteSnapshotHead(*head, fixtures::AppendTo(&bytes)).ok());
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) +
         snapshot.substr(snapshot.size() - image);
}

// With the same header in other words: spaces, escapes, a field that this server does not know.
std::string Reworded(const std::string& snapshot) {
  constexpr size_t kPrefix = 24;
  const size_t length = static_cast<unsigned char>(snapshot[16]) +
                        256 * size_t{static_cast<unsigned char>(snapshot[17])};
  auto header = nlohmann::json::parse(snapshot.substr(kPrefix, length));
  header["record"]["colour"] = "blue";
  fixtures::Bytes bytes;
  const ByteSink sink = fixtures::AppendTo(&bytes);
  FrameWriter frame(sink);
  const FrameFormat format{.name = "snapshot", .magic = "TVQSNAPS", .version = 1};
  EXPECT_TRUE(frame.Header(format, header.dump(2, ' ', /*ensure_ascii=*/true)).ok());
  size_t at = kPrefix + length + kChecksumBytes;
  for (const char* size : {"transcript_bytes", "outcomes_bytes"}) {
    const auto n = header[size].get<size_t>();
    EXPECT_TRUE(frame.Add(std::as_bytes(std::span(snapshot).subspan(at, n))).ok());
    EXPECT_TRUE(frame.End().ok());
    at += n + kChecksumBytes;
  }
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) +
         snapshot.substr(at);
}

TEST(SessionTransferTest, ReadsHeadersInOtherWords) {
  StoreHarness from;
  const SessionCall call{.id = from.Create({.label = "K\u00e4se"})};
  const SessionCall keyed{.id = call.id, .idempotency_key = "k"};
  {
    auto lease = from.store->Acquire(keyed);
    ASSERT_TRUE((*lease)->Commit(*from.Compute((*lease)->Start(), "text"), "reply").ok());
  }
  const std::string snapshot = Reworded(Export(from, call));
  StoreHarness to;
  const auto imported = Import(to, snapshot);
  ASSERT_TRUE(imported.ok()) << imported.status();
  to.ExpectHolds({.id = imported->record.id}, "text");
  const auto start = to.store->StartFrom("", Upload(to, snapshot));
  ASSERT_TRUE(start.ok()) << start.status();
  EXPECT_TRUE(to.Working(*start).ok());
  EXPECT_EQ(Import(to, snapshot + "x").status().code(), absl::StatusCode::kInvalidArgument);
}

// The state says how many tokens it holds, whatever the record claims.
TEST(SessionTransferTest, TakesNoPositionOnTheWordOfTheRecord) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  const std::string good = Export(h, call);
  const std::string of_a_mark = Rewritten(good, [](SnapshotHead& head) {
    head.record.marks = {{"m", head.version, head.record.position}};
    head.record.version = 9;
    head.record.position = 77'777;
  });
  const std::string longer = Rewritten(good, [](SnapshotHead& head) {
    head.record.position = 5;
    head.record.has_transcript = false;
    head.transcript.clear();
  });
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    for (const absl::Status& status :
         {Import(h, bytes).status(), h.store->StartFrom("", Upload(h, bytes)).status()}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr(why));
    }
  };
  refused(of_a_mark, "holds the state of version 2, a mark's, beside the record of version 9");
  refused(longer, "the state has 4 tokens and 0 pending, must have 5 in all");
}

TEST(SessionTransferTest, KeepsATranscriptOnlyWhereTheServerDoes) {
  StoreHarness from;
  const SessionCall call{.id = from.Create()};
  ASSERT_TRUE(from.Append(call, "text").ok());
  const std::string snapshot = Export(from, call);
  StoreHarness to({.host_bytes = 1'000'000, .keep_transcript = false});
  const auto silent = Import(to, snapshot);
  ASSERT_TRUE(silent.ok()) << silent.status();
  EXPECT_FALSE(silent->record.has_transcript);
  EXPECT_TRUE(to.store->Transcript("", silent->record.id)->tokens.Ids().empty());
  const auto asked = Import(to, snapshot, {.keep_transcript = true});
  ASSERT_TRUE(asked.ok()) << asked.status();
  EXPECT_EQ(to.store->Transcript("", asked->record.id)->tokens.Ids(), Ids("text"));
}

// Of many that find no room, only a few take a thread to wait in.
TEST(SessionTransferTest, FewImportsWaitForRoom) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text").ok());
  const std::string snapshot = Export(h, call);
  ASSERT_TRUE(h.store->Delete(call).ok());  // nothing is there that could make room
  StateBudget& budget = h.harness.engine->budget();
  auto all = budget.TryReserve(budget.total() - budget.used());
  ASSERT_TRUE(all.has_value());
  std::atomic<int> refused = 0, taken = 0;
  std::vector<std::thread> threads;
  constexpr int kImports = 7;
  threads.reserve(kImports);
  for (int i = 0; i < kImports; ++i) {
    threads.emplace_back([&] {
      const auto imported = Import(h, snapshot);
      if (imported.ok()) ++taken;
      if (absl::IsResourceExhausted(imported.status())) ++refused;
    });
  }
  while (refused < 3) std::this_thread::yield();
  all.reset();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(refused, 3);
  EXPECT_EQ(taken, 4);
}

TEST(SessionTransferTest, LimitsAnUpload) {
  StoreHarness h({.host_bytes = 1'000'000, .max_snapshot_bytes = 1000});
  const auto upload = h.store->NewUpload();
  const std::string piece(600, 'x');
  EXPECT_TRUE(upload->Add(piece).ok());
  const auto status = upload->Add(piece);
  EXPECT_EQ(RefusalOf(status).reason, Reason::kSnapshotTooLarge);
  EXPECT_THAT(std::string(status.message()), HasSubstr("1000"));
}

TEST(SessionTransferTest, ImportsOnceForOneKey) {
  StoreHarness h;
  const std::string snapshot = Export(h, {.id = h.Create()});
  const auto first = Import(h, snapshot, {.idempotency_key = "k", .request_hash = 1});
  const auto retry = Import(h, snapshot, {.idempotency_key = "k", .request_hash = 1});
  ASSERT_TRUE(first.ok() && retry.ok());
  EXPECT_EQ(first->record.id, retry->record.id);
  for (const absl::Status& status :
       {Import(h, snapshot, {.idempotency_key = "k", .request_hash = 2}).status(),
        h.store->Create("", {.idempotency_key = "k", .request_hash = 1}).status()}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
}

TEST(SessionTransferTest, ComputesOnAnUploadWithoutASession) {
  StoreHarness h;
  const SessionCall call{.id = h.Create()};
  ASSERT_TRUE(h.Append(call, "text", /*pending=*/true).ok());
  std::string snapshot = Export(h, call);
  const auto start = h.store->StartFrom("fake", Upload(h, snapshot));
  ASSERT_TRUE(start.ok()) << start.status();
  ASSERT_TRUE(start->has_value());
  EXPECT_EQ((*start)->position, 3);
  EXPECT_EQ((*start)->pending, Ids("t"));
  auto end = h.Compute(*start, " goes on");
  ASSERT_TRUE(end.ok()) << end.status();
  const auto stream = h.store->ToSnapshot("fake", *std::move(end));
  ASSERT_TRUE(stream.ok()) << stream.status();
  snapshot = Drain(**stream);
  EXPECT_EQ(h.harness.model->live_states, 1);
  const auto imported = Import(h, snapshot, {.keep_transcript = false});
  ASSERT_TRUE(imported.ok()) << imported.status();
  h.ExpectHolds({.id = imported->record.id}, "text goes on");

  // A damaged state shows when the request's is filled.
  snapshot[snapshot.size() - 20] ^= 1;
  const auto bad = h.store->StartFrom("", Upload(h, snapshot));
  ASSERT_TRUE(bad.ok()) << bad.status();
  EXPECT_EQ(h.Working(*bad).status().code(), absl::StatusCode::kInvalidArgument);
  const auto empty = h.store->StartFrom("", Upload(h, Export(h, {.id = h.Create()})));
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_FALSE(empty->has_value());
}

}  // namespace
}  // namespace tvq
