#include "client/cpp/sessions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "client/cpp/client.h"
#include "tests/client/cpp/fake_server.h"
#include "tvq/v1/refusal.pb.h"

namespace tvq::client {
namespace {

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::HasSubstr;

constexpr size_t kMiB = size_t{1} << 20;

class SessionsTest : public testing::Test {
 protected:
  Sessions& sessions() { return client_->sessions(); }

  FakeServer server_;
  const std::unique_ptr<Client> client_ = *Client::Connect(server_.address());
};

void SetSession(v1::SessionCall* call) {
  call->set_session_id("s1");
  call->set_expected_version(7);
  call->set_durability(v1::DURABILITY_DISK);
}

// A handler that checks the session of the request and answers a position one version later.
template <typename Request, typename Response>
Handler<Request, Response> NextVersion() {
  return [](grpc::ServerContext*, const Request& request, Response* response) {
    EXPECT_EQ(request.session().durability(), v1::DURABILITY_DISK);
    response->mutable_session()->set_session_id(request.session().session_id());
    response->mutable_session()->set_version(request.session().expected_version() + 1);
    return grpc::Status::OK;
  };
}

void ExpectPosition(const absl::StatusOr<v1::SessionPosition>& position) {
  ASSERT_TRUE(position.ok()) << position.status();
  EXPECT_EQ(position->session_id(), "s1");
  EXPECT_EQ(position->version(), 8);
}

TEST_F(SessionsTest, TheIdGoesAsAHeaderThatAProxyCanRouteBy) {
  std::vector<std::string> seen;
  const auto see = [&seen](auto* context, const auto&, auto*) {
    seen.push_back(Header(*context, "tvq-session-id"));
    return grpc::Status::OK;
  };
  server_.sessions.get = see;
  server_.sessions.append = see;
  server_.sessions.list = see;
  server_.sessions.export_session = see;
  server_.generation.generate = see;
  const auto calls = [&](const std::string& id) {
    seen.clear();
    v1::GetSessionRequest get;
    get.set_session_id(id);
    EXPECT_TRUE(sessions().Get(get).ok());
    v1::AppendSessionRequest append;
    append.mutable_session()->set_session_id(id);
    EXPECT_TRUE(sessions().Append(append).ok());
    EXPECT_TRUE(sessions().List({}).ok());
    v1::ExportSessionRequest save;
    save.mutable_session()->set_session_id(id);
    v1::ExportSessionResponse chunk;
    const auto exported = sessions().Export(save);
    EXPECT_FALSE(exported->Next(&chunk));
    EXPECT_TRUE(exported->Finish().ok());
    v1::GenerateRequest generate;
    generate.mutable_session()->set_session_id(id);
    EXPECT_TRUE(client_->Generate(generate, {}, [](const auto&) { return true; }).ok());
    return seen;
  };
  EXPECT_THAT(calls("s-1"), ElementsAre("s-1", "s-1", "", "s-1", "s-1"));
  for (const std::string& id : {std::string("two\nlines"), std::string(100'000, 'x')}) {
    EXPECT_THAT(calls(id), testing::Each("")) << "no header can carry it";
  }
}

TEST_F(SessionsTest, PassesRequestsOnAndUnwrapsReplies) {
  server_.sessions.create = [](auto*, const auto& request, auto* response) {
    response->mutable_session()->set_label(request.label());
    return grpc::Status::OK;
  };
  v1::CreateSessionRequest create;
  create.set_label("mine");
  const auto created = sessions().Create(create);
  ASSERT_TRUE(created.ok()) << created.status();
  EXPECT_EQ(created->label(), "mine");

  server_.sessions.get = [](auto*, const auto& request, auto* response) {
    response->mutable_session()->set_id(request.session_id());
    response->add_transcript(5);
    return grpc::Status::OK;
  };
  v1::GetSessionRequest get;
  get.set_session_id("s1");
  const auto got = sessions().Get(get);
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ(got->session().id(), "s1");
  EXPECT_THAT(got->transcript(), ElementsAre(5));

  server_.sessions.fork = [](auto*, const auto& request, auto* response) {
    for (int i = 0; i < request.count(); ++i) {
      response->add_sessions()->set_id(absl::StrCat("f", i));
    }
    return grpc::Status::OK;
  };
  v1::ForkSessionRequest fork;
  fork.set_count(2);
  const auto forks = sessions().Fork(fork);
  ASSERT_TRUE(forks.ok()) << forks.status();
  ASSERT_EQ(forks->size(), 2u);
  EXPECT_EQ((*forks)[1].id(), "f1");
}

TEST_F(SessionsTest, WritersReturnThePosition) {
  server_.sessions.append = NextVersion<v1::AppendSessionRequest, v1::AppendSessionResponse>();
  server_.sessions.mark = NextVersion<v1::MarkSessionRequest, v1::MarkSessionResponse>();
  server_.sessions.unmark = NextVersion<v1::UnmarkSessionRequest, v1::UnmarkSessionResponse>();
  server_.sessions.rewind = NextVersion<v1::RewindSessionRequest, v1::RewindSessionResponse>();
  server_.sessions.save = NextVersion<v1::SaveSessionRequest, v1::SaveSessionResponse>();
  v1::AppendSessionRequest append;
  SetSession(append.mutable_session());
  const auto appended = sessions().Append(append);
  ASSERT_TRUE(appended.ok()) << appended.status();
  ExpectPosition(appended->session());
  v1::MarkSessionRequest mark;
  SetSession(mark.mutable_session());
  ExpectPosition(sessions().Mark(mark));
  v1::UnmarkSessionRequest unmark;
  SetSession(unmark.mutable_session());
  ExpectPosition(sessions().Unmark(unmark));
  v1::RewindSessionRequest rewind;
  SetSession(rewind.mutable_session());
  ExpectPosition(sessions().Rewind(rewind));
  v1::SaveSessionRequest save;
  SetSession(save.mutable_session());
  ExpectPosition(sessions().Save(save));
}

TEST_F(SessionsTest, ErrorsKeepCodeMessageAndRefusal) {
  server_.sessions.remove = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::ABORTED, "session s1 is at version 8");
  };
  const absl::Status busy = sessions().Delete({});
  EXPECT_TRUE(absl::IsAborted(busy));
  EXPECT_EQ(busy.message(), "session s1 is at version 8");
  EXPECT_FALSE(RetryAfter(busy));

  v1::StatusDetails details;
  const auto add = [&](const char* type, const google::protobuf::MessageLite& detail) {
    auto* const any = details.add_details();
    any->set_type_url(absl::StrCat("type.googleapis.com/google.rpc.", type));
    any->set_value(detail.SerializeAsString());
  };
  v1::ErrorInfo info;
  info.set_reason("SESSIONS_FULL");
  info.set_domain("tvq");
  v1::BadRequest bad;
  bad.add_field_violations()->set_field("count");
  v1::RetryInfo retry;
  retry.mutable_retry_delay()->set_nanos(250'000'000);
  add("BadRequest", bad);
  add("Unknown", bad);
  add("ErrorInfo", info);
  add("RetryInfo", retry);
  server_.sessions.create = [&](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "count: full",
                        details.SerializeAsString());
  };
  const auto created = sessions().Create({});
  EXPECT_TRUE(absl::IsResourceExhausted(created.status()));
  EXPECT_EQ(created.status().message(), "count: full");
  EXPECT_EQ(RefusalOf(created.status()), (Refusal{.reason = Reason::kSessionsFull,
                                                  .field = "count",
                                                  .retry = Retry::kAfter,
                                                  .retry_after_ms = 250}));
  EXPECT_EQ(RetryAfter(created.status()), absl::Milliseconds(250));
}

TEST_F(SessionsTest, ListAllFollowsThePages) {
  server_.sessions.list = [](auto*, const auto& request, auto* response) {
    EXPECT_EQ(request.parent_id(), "p");
    const int page = request.page_token().empty() ? 0 : std::stoi(request.page_token());
    response->add_sessions()->set_id(absl::StrCat("a", page));
    response->add_sessions()->set_id(absl::StrCat("b", page));
    if (page < 2) response->set_next_page_token(std::to_string(page + 1));
    return grpc::Status::OK;
  };
  v1::ListSessionsRequest request;
  request.set_parent_id("p");
  const auto all = sessions().ListAll(request);
  ASSERT_TRUE(all.ok()) << all.status();
  std::vector<std::string> ids;
  for (const v1::Session& session : *all) ids.push_back(session.id());
  EXPECT_THAT(ids, ElementsAre("a0", "b0", "a1", "b1", "a2", "b2"));

  server_.sessions.list = [](auto*, const auto& request, auto* response) {
    response->set_next_page_token("1");
    return request.page_token().empty() ? grpc::Status::OK
                                        : grpc::Status(grpc::StatusCode::INTERNAL, "page 1");
  };
  EXPECT_TRUE(absl::IsInternal(sessions().ListAll({}).status()));
}

// Answers with the ids of a transcript, two at a time.
grpc::Status TwoIds(const std::vector<int32_t>& ids, int64_t version,
                    const v1::GetSessionRequest& request, v1::GetSessionResponse* response) {
  EXPECT_TRUE(request.include_transcript());
  const size_t begin = static_cast<size_t>(request.transcript_start());
  if (begin > ids.size()) return {grpc::StatusCode::INVALID_ARGUMENT, "transcript_start"};
  response->mutable_session()->set_version(version);
  response->mutable_session()->set_position(static_cast<int64_t>(ids.size()));
  const size_t end = std::min(begin + 2, ids.size());
  for (size_t i = begin; i < end; ++i) response->add_transcript(ids[i]);
  return grpc::Status::OK;
}

TEST_F(SessionsTest, TranscriptIsOfOneVersion) {
  for (const std::vector<int32_t>& later :
       {std::vector<int32_t>{9, 8, 7, 6, 5, 4}, std::vector<int32_t>{9}}) {
    int calls = 0;
    server_.sessions.get = [&](auto*, const auto& request, auto* response) {
      return calls++ == 0 ? TwoIds({1, 2, 3, 4, 5}, 1, request, response)
                          : TwoIds(later, 2, request, response);
    };
    const auto whole = sessions().GetWithTranscript("s1");
    ASSERT_TRUE(whole.ok()) << whole.status();
    EXPECT_EQ(whole->session().version(), 2);
    EXPECT_THAT(whole->transcript(), ElementsAreArray(later));
  }
  server_.sessions.get = [](auto*, const auto&, auto*) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "session_id");
  };
  EXPECT_TRUE(absl::IsInvalidArgument(sessions().GetWithTranscript("s1").status()));
}

TEST_F(SessionsTest, ExportGivesEveryChunk) {
  server_.sessions.export_session = [](auto*, const auto&, auto* writer) {
    v1::ExportSessionResponse response;
    response.set_total_bytes(6);
    for (const char* chunk : {"abc", "", "def"}) {
      response.set_chunk(chunk);
      writer->Write(response);
      response.clear_total_bytes();
    }
    return grpc::Status::OK;
  };
  std::string bytes;
  const absl::Status status = sessions().Export({}, {}, [&](std::string_view chunk, int64_t total) {
    EXPECT_EQ(total, 6);
    bytes += chunk;
    return absl::OkStatus();
  });
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(bytes, "abcdef");
}

TEST_F(SessionsTest, ExportThatEndsEarlyIsDataLoss) {
  server_.sessions.export_session = [](auto*, const auto&, auto* writer) {
    v1::ExportSessionResponse response;
    response.set_total_bytes(6);
    response.set_chunk("abc");
    writer->Write(response);
    return grpc::Status::OK;
  };
  const absl::Status status =
      sessions().Export({}, {}, [](std::string_view, int64_t) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("6 bytes"));
}

TEST_F(SessionsTest, ExportIsCancelledBySink) {
  std::atomic<bool> cancelled = false;
  server_.sessions.export_session = [&](auto* context, const auto&, auto* writer) {
    v1::ExportSessionResponse response;
    response.set_total_bytes(1 << 30);
    response.set_chunk("abc");
    while (writer->Write(response)) {
    }
    cancelled = context->IsCancelled();
    return grpc::Status::OK;
  };
  int calls = 0;
  const absl::Status status = sessions().Export({}, {}, [&](std::string_view, int64_t) {
    ++calls;
    return absl::ResourceExhaustedError("disk full");
  });
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(calls, 1);
  while (!cancelled) std::this_thread::yield();
}

TEST_F(SessionsTest, ExportIsCancelledByItsOwner) {
  server_.sessions.export_session = [&](auto*, const auto&, auto* writer) {
    v1::ExportSessionResponse response;
    response.set_total_bytes(1 << 30);
    response.set_chunk("abc");
    while (writer->Write(response)) {
    }
    return grpc::Status::OK;
  };
  const auto stream = sessions().Export({});
  std::thread owner;
  const absl::Status status = Sessions::Receive(*stream, [&](std::string_view, int64_t) {
    if (!owner.joinable()) owner = std::thread([&] { stream->Cancel(); });
    return absl::OkStatus();
  });
  owner.join();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
}

// Pieces of a snapshot, then the end.
ChunkSource Pieces(std::vector<std::string> pieces) {
  return [pieces = std::move(pieces), next = size_t{0}]() mutable -> absl::StatusOr<std::string> {
    return next < pieces.size() ? pieces[next++] : "";
  };
}

TEST_F(SessionsTest, ImportSendsPiecesOfAtMostOneMiB) {
  const std::string large(2 * kMiB + 5, 'x');
  server_.sessions.import_session = [&](auto*, auto* reader, auto* response) {
    v1::ImportSessionRequest request;
    EXPECT_TRUE(reader->Read(&request));
    EXPECT_EQ(request.create().label(), "mine");
    std::string bytes = request.chunk();
    while (reader->Read(&request)) {
      EXPECT_FALSE(request.has_create());
      EXPECT_LE(request.chunk().size(), kMiB);
      bytes += request.chunk();
    }
    EXPECT_EQ(bytes, "abc" + large);
    response->mutable_session()->set_id("s2");
    return grpc::Status::OK;
  };
  v1::CreateSessionRequest create;
  create.set_label("mine");
  const auto session = sessions().Import(create, Pieces({"abc", large}));
  ASSERT_TRUE(session.ok()) << session.status();
  EXPECT_EQ(session->id(), "s2");
}

TEST_F(SessionsTest, ImportRefusedEarlyReturnsTheServersReason) {
  server_.sessions.import_session = [](auto*, auto*, auto*) {
    return grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "of another model");
  };
  const ChunkSource endless = [] { return std::string(kMiB, 'x'); };
  const auto session = sessions().Import({}, endless);
  EXPECT_TRUE(absl::IsFailedPrecondition(session.status())) << session.status();
}

TEST_F(SessionsTest, ImportIsCancelledWhenTheSourceFails) {
  std::atomic<bool> cancelled = false;
  server_.sessions.import_session = [&](auto* context, auto* reader, auto*) {
    v1::ImportSessionRequest request;
    while (reader->Read(&request)) {
    }
    cancelled = context->IsCancelled();
    return grpc::Status::OK;
  };
  const auto session = sessions().Import({}, []() -> absl::StatusOr<std::string> {
    return absl::DataLossError("cannot read the file");
  });
  EXPECT_TRUE(absl::IsDataLoss(session.status())) << session.status();
  while (!cancelled) std::this_thread::yield();
}

}  // namespace
}  // namespace tvq::client
