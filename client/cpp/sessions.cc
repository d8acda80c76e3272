#include "client/cpp/sessions.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cpp/grpc_call.h"
#include "tvq/v1/session.grpc.pb.h"

namespace tvq::client {
namespace {

// The part of a response that its caller wants: `take` picks it from a response of type Response.
template <typename Response, typename Take>
auto Part(absl::StatusOr<Response> response, const Take& take)
    -> absl::StatusOr<std::decay_t<decltype(take(&*response))>> {
  if (!response.ok()) return response.status();
  return std::move(take(&*response));
}

template <typename Response>
absl::StatusOr<v1::SessionPosition> Position(absl::StatusOr<Response> response) {
  return Part(std::move(response), [](auto* r) -> auto& { return *r->mutable_session(); });
}

class GrpcSessions final : public Sessions {
 public:
  explicit GrpcSessions(const Transport& transport)
      : transport_(transport), stub_(v1::SessionService::NewStub(transport.channel)) {}

  absl::StatusOr<v1::Session> Create(const v1::CreateSessionRequest& request,
                                     const CallOptions& options) override {
    return Part(Call<v1::CreateSessionResponse>(&Stub::CreateSession, request, options),
                [](auto* r) -> auto& { return *r->mutable_session(); });
  }

  absl::StatusOr<v1::GetSessionResponse> Get(const v1::GetSessionRequest& request,
                                             const CallOptions& options) override {
    return Call<v1::GetSessionResponse>(&Stub::GetSession, request, options);
  }

  absl::StatusOr<v1::ListSessionsResponse> List(const v1::ListSessionsRequest& request,
                                                const CallOptions& options) override {
    return Call<v1::ListSessionsResponse>(&Stub::ListSessions, request, options);
  }

  absl::StatusOr<v1::AppendSessionResponse> Append(const v1::AppendSessionRequest& request,
                                                   const CallOptions& options) override {
    return Call<v1::AppendSessionResponse>(&Stub::AppendSession, request, options);
  }

  absl::StatusOr<std::vector<v1::Session>> Fork(const v1::ForkSessionRequest& request,
                                                const CallOptions& options) override {
    auto response = Call<v1::ForkSessionResponse>(&Stub::ForkSession, request, options);
    if (!response.ok()) return response.status();
    return std::vector<v1::Session>(response->sessions().begin(), response->sessions().end());
  }

  absl::StatusOr<v1::SessionPosition> Mark(const v1::MarkSessionRequest& request,
                                           const CallOptions& options) override {
    return Position(Call<v1::MarkSessionResponse>(&Stub::MarkSession, request, options));
  }

  absl::StatusOr<v1::SessionPosition> Unmark(const v1::UnmarkSessionRequest& request,
                                             const CallOptions& options) override {
    return Position(Call<v1::UnmarkSessionResponse>(&Stub::UnmarkSession, request, options));
  }

  absl::StatusOr<v1::SessionPosition> Rewind(const v1::RewindSessionRequest& request,
                                             const CallOptions& options) override {
    return Position(Call<v1::RewindSessionResponse>(&Stub::RewindSession, request, options));
  }

  absl::StatusOr<v1::SessionPosition> Save(const v1::SaveSessionRequest& request,
                                           const CallOptions& options) override {
    return Position(Call<v1::SaveSessionResponse>(&Stub::SaveSession, request, options));
  }

  absl::Status Delete(const v1::DeleteSessionRequest& request,
                      const CallOptions& options) override {
    return Call<v1::DeleteSessionResponse>(&Stub::DeleteSession, request, options).status();
  }

  std::unique_ptr<ExportStream> Export(const v1::ExportSessionRequest& request,
                                       const CallOptions& options) override {
    return std::make_unique<ServerStream<v1::ExportSessionResponse>>(
        transport_, options, [&](auto* context) { return stub_->ExportSession(context, request); },
        SessionId(request));
  }

  absl::StatusOr<v1::Session> Import(const v1::CreateSessionRequest& create,
                                     const ChunkSource& source,
                                     const CallOptions& options) override {
    grpc::ClientContext context;
    Apply(options, transport_, &context);
    v1::ImportSessionResponse response;
    const auto writer = stub_->ImportSession(&context, &response);
    v1::ImportSessionRequest first;
    *first.mutable_create() = create;
    absl::Status sent;
    if (writer->Write(first)) sent = SendChunks<v1::ImportSessionRequest>(source, writer.get());
    if (!sent.ok()) context.TryCancel();
    const grpc::Status status = writer->Finish();
    if (!sent.ok()) return sent;
    if (!status.ok()) return FromGrpc(status, context, EndOf(transport_));
    return std::move(*response.mutable_session());
  }

 private:
  using Stub = v1::SessionService::Stub;

  template <typename Response, typename Request>
  absl::StatusOr<Response> Call(grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                             Response*),
                                const Request& request, const CallOptions& options) {
    return Unary<Response>(
        transport_, options,
        [&](auto* context, auto* response) {
          return ((*stub_).*method)(context, request, response);
        },
        SessionId(request));
  }

  const Transport transport_;
  const std::unique_ptr<Stub> stub_;
};

}  // namespace

absl::StatusOr<std::vector<v1::Session>> Sessions::ListAll(v1::ListSessionsRequest request,
                                                           const CallOptions& options) {
  std::vector<v1::Session> sessions;
  while (true) {
    auto page = List(request, options);
    if (!page.ok()) return page.status();
    for (v1::Session& session : *page->mutable_sessions()) sessions.push_back(std::move(session));
    if (page->next_page_token().empty()) return sessions;
    request.set_page_token(page->next_page_token());
  }
}

absl::StatusOr<v1::GetSessionResponse> Sessions::GetWithTranscript(const std::string& session_id,
                                                                   const CallOptions& options) {
  v1::GetSessionRequest request;
  request.set_session_id(session_id);
  request.set_include_transcript(true);
  v1::GetSessionResponse whole;
  while (true) {
    request.set_transcript_start(whole.transcript_size());
    absl::StatusOr<v1::GetSessionResponse> part = Get(request, options);
    // After a rewind the next part may begin behind the end.
    const bool changed = part.ok() ? part->session().version() != whole.session().version()
                                   : absl::IsInvalidArgument(part.status());
    if (changed && whole.transcript_size() > 0) {
      whole.Clear();
      continue;
    }
    if (!part.ok()) return part.status();
    *whole.mutable_session() = part->session();
    whole.mutable_transcript()->MergeFrom(part->transcript());
    if (part->transcript().empty() || whole.transcript_size() >= whole.session().position()) {
      return whole;
    }
  }
}

absl::Status Sessions::Export(const v1::ExportSessionRequest& request, const CallOptions& options,
                              const ChunkSink& sink) {
  return Receive(*Export(request, options), sink);
}

absl::Status Sessions::Receive(ExportStream& stream, const ChunkSink& sink) {
  v1::ExportSessionResponse response;
  int64_t received = 0, total = 0;
  absl::Status taken;
  while (stream.Next(&response)) {
    if (received == 0) total = response.total_bytes();
    received += static_cast<int64_t>(response.chunk().size());
    if (taken.ok()) taken = sink(response.chunk(), total);
    if (!taken.ok()) stream.Cancel();
  }
  const absl::Status status = stream.Finish();
  if (!taken.ok()) return taken;
  if (status.ok() && received != total) {
    return absl::DataLossError(
        absl::StrCat("the snapshot has ", total, " bytes, the server sent ", received));
  }
  return status;
}

std::unique_ptr<Sessions> MakeSessions(const Transport& transport) {
  return std::make_unique<GrpcSessions>(transport);
}

}  // namespace tvq::client
