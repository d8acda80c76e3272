#include "server/rpc/services/session_service.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/refusal.h"
#include "server/rpc/calls/append_call.h"
#include "server/rpc/calls/snapshots/export_call.h"
#include "server/rpc/calls/snapshots/import_call.h"
#include "server/rpc/wire/convert.h"
#include "server/rpc/wire/session_convert.h"
#include "server/sessions/record/session_limits.h"
#include "tvq/v1/session.pb.h"

namespace tvq {
namespace {

constexpr MethodInfo kCreate{"SessionService/CreateSession", Permission::kSessions};
constexpr MethodInfo kGet{"SessionService/GetSession", Permission::kSessions};
constexpr MethodInfo kList{"SessionService/ListSessions", Permission::kSessions};
constexpr MethodInfo kAppend{"SessionService/AppendSession", Permission::kSessions};
constexpr MethodInfo kFork{"SessionService/ForkSession", Permission::kSessions};
constexpr MethodInfo kMark{"SessionService/MarkSession", Permission::kSessions};
constexpr MethodInfo kUnmark{"SessionService/UnmarkSession", Permission::kSessions};
constexpr MethodInfo kRewind{"SessionService/RewindSession", Permission::kSessions};
constexpr MethodInfo kSave{"SessionService/SaveSession", Permission::kSessions};
constexpr MethodInfo kDelete{"SessionService/DeleteSession", Permission::kSessions};
constexpr MethodInfo kExport{"SessionService/ExportSession", Permission::kSessions};
constexpr MethodInfo kImport{"SessionService/ImportSession", Permission::kSessions};

// In one answer: at most 5 bytes each, together well below the 4 MiB that gRPC's clients take.
constexpr int64_t kMostTranscriptIds = 1 << 18;

absl::Status Create(const CallContext& context, const Caller& caller,
                    const v1::CreateSessionRequest& request, v1::CreateSessionResponse* response) {
  if (auto status = CheckNotDraining(context); !status.ok()) return status;
  auto options = ToCreateOptions(request);
  if (!options.ok()) return options.status();
  const auto model = FindModel(context.engine->models(), options->model);
  if (!model.ok()) return model.status();
  options->model = (*model)->name;
  const auto view = context.sessions->Create(caller.owner, *options);
  if (!view.ok()) return view.status();
  ToProto(*view, response->mutable_session());
  return absl::OkStatus();
}

absl::Status Get(const CallContext& context, const Caller& caller,
                 const v1::GetSessionRequest& request, v1::GetSessionResponse* response) {
  if (auto status = CheckSessionId(request.session_id(), "session_id"); !status.ok()) return status;
  if (!request.include_transcript()) {
    const auto view = context.sessions->Get(caller.owner, request.session_id());
    if (!view.ok()) return view.status();
    ToProto(*view, response->mutable_session());
    return absl::OkStatus();
  }
  const auto transcript = context.sessions->Transcript(caller.owner, request.session_id());
  if (!transcript.ok()) return transcript.status();
  ToProto(transcript->view, response->mutable_session());
  const int64_t start = request.transcript_start(), size = transcript->tokens.size();
  if (start < 0 || start > size) {
    return Refused(Reason::kValueInvalid, "transcript_start",
                   absl::StrCat("is ", start, ", must be 0 to ", size));
  }
  const std::vector<int32_t> ids =
      transcript->tokens.Ids(start, std::min(kMostTranscriptIds, size - start));
  response->mutable_transcript()->Add(ids.begin(), ids.end());
  return absl::OkStatus();
}

absl::Status List(const CallContext& context, const Caller& caller,
                  const v1::ListSessionsRequest& request, v1::ListSessionsResponse* response) {
  const auto size = ToPageSize(request);
  if (!size.ok()) return size.status();
  const auto page = context.sessions->List(caller.owner, {request.model(), request.parent_id()},
                                           *size, request.page_token());
  if (!page.ok()) return page.status();
  for (const SessionView& view : page->sessions) ToProto(view, response->add_sessions());
  response->set_next_page_token(page->next_page_token);
  return absl::OkStatus();
}

absl::Status Fork(const CallContext& context, const Caller& caller,
                  const v1::ForkSessionRequest& request, v1::ForkSessionResponse* response) {
  if (auto status = CheckNotDraining(context); !status.ok()) return status;
  const auto call = ToSessionCall(request, caller.owner);
  if (!call.ok()) return call.status();
  const auto options = ToForkOptions(request);
  if (!options.ok()) return options.status();
  const auto views = context.sessions->Fork(*call, *options);
  if (!views.ok()) return views.status();
  for (const SessionView& view : *views) ToProto(view, response->add_sessions());
  return absl::OkStatus();
}

absl::Status Delete(const CallContext& context, const Caller& caller,
                    const v1::DeleteSessionRequest& request, v1::DeleteSessionResponse*) {
  const auto call = ToSessionCall(request, caller.owner);
  if (!call.ok()) return call.status();
  return context.sessions->Delete(*call);
}

// Of what Fork answers, at most.
int64_t ForksBytes(const v1::ForkSessionRequest& request) {
  constexpr int64_t kForkBytes = 2048;  // label, names and numbers of one
  return int64_t{std::clamp(request.count(), 0, kMaxForks)} * kForkBytes;
}

// A method that takes a session somewhere and answers its position: `act` is
// StatusOr<SessionView>(const SessionCall&).
template <typename Request, typename Response, typename Act>
absl::Status Move(const Caller& caller, const Request& request, Response* response, Act act) {
  const auto call = ToSessionCall(request, caller.owner);
  if (!call.ok()) return call.status();
  const absl::StatusOr<SessionView> view = act(*call);
  if (!view.ok()) return view.status();
  *response->mutable_session() = PositionOf(view->record);
  return absl::OkStatus();
}

// The same for a method that names a mark in the field `field`.
template <typename Request, typename Response>
absl::Status MoveMark(const CallContext& context, const Caller& caller, const Request& request,
                      const std::string& name, const char* field, Response* response,
                      absl::StatusOr<SessionView> (SessionStore::*act)(const SessionCall&,
                                                                       const std::string&)) {
  if (auto status = CheckNotDraining(context); !status.ok()) return status;
  if (auto status = CheckMarkName(name, field); !status.ok()) return status;
  return Move(caller, request, response,
              [&](const SessionCall& call) { return (context.sessions->*act)(call, name); });
}

absl::Status Mark(const CallContext& context, const Caller& caller,
                  const v1::MarkSessionRequest& request, v1::MarkSessionResponse* response) {
  return MoveMark(context, caller, request, request.name(), "name", response, &SessionStore::Mark);
}

absl::Status Unmark(const CallContext& context, const Caller& caller,
                    const v1::UnmarkSessionRequest& request, v1::UnmarkSessionResponse* response) {
  return MoveMark(context, caller, request, request.name(), "name", response,
                  &SessionStore::Unmark);
}

absl::Status Rewind(const CallContext& context, const Caller& caller,
                    const v1::RewindSessionRequest& request, v1::RewindSessionResponse* response) {
  return MoveMark(context, caller, request, request.mark(), "mark", response,
                  &SessionStore::Rewind);
}

absl::Status Save(const CallContext& context, const Caller& caller,
                  const v1::SaveSessionRequest& request, v1::SaveSessionResponse* response) {
  return Move(caller, request, response,
              [&](const SessionCall& call) { return context.sessions->Save(call); });
}

}  // namespace

template <typename Request, typename Response>
void SessionService::Add(const MethodInfo& method,
                         absl::Status (*handle)(const CallContext&, const Caller&, const Request&,
                                                Response*),
                         int64_t (*room)(const Request&)) {
  AddUnary<Request, Response>(
      {.info = method,
       .handle = [this, handle](auto& caller, auto& q,
                                auto* r) { return handle(context(), caller, q, r); },
       .where = RunOn::kSessionTasks,
       .room = room});
}

SessionService::SessionService(const CallContext& context) : TvqService(context) {
  Add(kCreate, Create);
  Add(kGet, Get);
  Add(kList, List);
  AddCalls<AppendCall>(kAppend, Requests::kOne);
  Add(kFork, Fork, ForksBytes);
  Add(kMark, Mark);
  Add(kUnmark, Unmark);
  Add(kRewind, Rewind);
  Add(kSave, Save);
  Add(kDelete, Delete);
  AddCalls<ExportCall>(kExport, Requests::kOne);
  AddCalls<ImportCall>(kImport, Requests::kStream);
}

}  // namespace tvq
