// GET /v1/sessions/{id}/export and POST /v1/sessions/import: snapshots pass through in pieces.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/gateway/api/answer.h"
#include "client/gateway/api/models_json.h"
#include "client/gateway/api/services.h"
#include "client/gateway/api/session_target.h"
#include "client/gateway/api/whole_reply.h"
#include "client/gateway/upstream/read_call.h"
#include "client/gateway/upstream/upload_call.h"
#include "client/json/session_json.h"

namespace tvq::gateway {
namespace {

using client::ToJson;

constexpr size_t kChunksAhead = 2;                 // of an export, at most 1 MiB each
constexpr size_t kChunksHeld = 2;                  // one is written while the next comes
constexpr size_t kPieceBytes = size_t{256} << 10;  // of an import

using ExportCall = ReadCall<v1::ExportSessionResponse>;
using ImportCall = UploadCall<v1::ImportSessionRequest, v1::ImportSessionResponse>;

// The head of an export's answer. Ids are hexadecimal; what else a path may name is no file name.
Response Attachment(std::string id) {
  const bool plain = std::all_of(id.begin(), id.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
  if (!plain) id = "session";
  return {.content_type = "application/octet-stream",
          .headers = {{"Content-Disposition",
                       absl::StrCat("attachment; filename=\"", id, ".tvqsnapshot\"")}}};
}

asio::awaitable<void> SendChunks(Exchange& exchange, const std::string& id, ExportCall& call,
                                 Signal& changed) {
  std::vector<v1::ExportSessionResponse> messages;
  while (true) {
    co_await changed.Wait();
    if (exchange.gone()) co_return;
    messages.clear();
    const bool done = call.Take(&messages).done;
    for (const v1::ExportSessionResponse& message : messages) {
      bool open = true;
      if (!exchange.begun()) {
        // None of the others is larger than the first, and all together are no more than there is.
        const auto total = static_cast<size_t>(std::max<int64_t>(message.total_bytes(), 0));
        if (!exchange.Hold(std::min(kChunksHeld * message.chunk().size(), total))) {
          co_await exchange.Respond(ErrorResponse(NoMemory(exchange)));
          co_return;
        }
        open =
            co_await exchange.Begin(Attachment(id), static_cast<uint64_t>(message.total_bytes()));
      }
      if (open) open = co_await exchange.Write(message.chunk());
      if (!open) co_return;
    }
    if (!done) continue;
    const absl::Status status = call.status();
    if (status.ok()) {
      co_await exchange.End();
    } else if (exchange.begun()) {
      exchange.Abort();  // the client counts fewer bytes than were announced
    } else {
      co_await exchange.Respond(ErrorResponse(SessionError(status)));
    }
    co_return;
  }
}

asio::awaitable<void> Export(Services& services, Exchange& exchange, SessionTarget target) {
  const absl::StatusOr<v1::SessionCall> session = ParseCall(QueryOf(exchange), target);
  if (!session.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(session.status())));
    co_return;
  }
  v1::ExportSessionRequest request;
  *request.mutable_session() = *session;
  const auto changed = std::make_shared<Signal>(exchange.executor());
  const auto prepare = [&](grpc::ClientContext* context) {
    const Stubs& stubs = services.upstream.Next();
    return stubs.sessions->PrepareAsyncExportSession(context, request, stubs.queue);
  };
  const auto call =
      ExportCall::Start(HeadersOf(exchange, target.id), changed, kChunksAhead, prepare);
  const absl::Cleanup cancel = [&call] { call->Cancel(); };
  exchange.OnHangUp([call] { call->Cancel(); });
  co_await SendChunks(exchange, target.id, *call, *changed);
}

// Ends when the body does, or the server has heard enough. Not OK: the body failed.
asio::awaitable<absl::Status> ReceiveChunks(Exchange& exchange, v1::CreateSessionRequest create,
                                            ImportCall& call) {
  v1::ImportSessionRequest message;
  *message.mutable_create() = std::move(create);
  bool open = co_await call.Write(std::move(message));
  while (open) {
    absl::StatusOr<std::string> piece = co_await exchange.ReadPiece(kPieceBytes);
    if (!piece.ok()) co_return piece.status();
    if (piece->empty()) break;
    v1::ImportSessionRequest next;
    next.set_chunk(*std::move(piece));
    open = co_await call.Write(std::move(next));
  }
  co_return absl::OkStatus();
}

asio::awaitable<void> Import(Services& services, Exchange& exchange) {
  const std::string key(exchange.request().Find("idempotency-key"));
  auto create = ParseImport(QueryOf(exchange), key);
  if (!create.ok()) {
    co_await exchange.Respond(ErrorResponse(ToApiError(create.status())));
    co_return;
  }
  const auto prepare = [&](grpc::ClientContext* context, v1::ImportSessionResponse* response) {
    const Stubs& stubs = services.upstream.Next();
    return stubs.sessions->PrepareAsyncImportSession(context, response, stubs.queue);
  };
  const auto call = ImportCall::Start(HeadersOf(exchange), exchange.executor(), prepare);
  const absl::Cleanup cancel = [&call] { call->Cancel(); };
  exchange.OnHangUp([call] { call->Cancel(); });
  const absl::Status received = co_await ReceiveChunks(exchange, *std::move(create), *call);
  if (!received.ok()) {
    call->Cancel();
    if (!exchange.gone()) co_await exchange.Respond(ErrorResponse(BodyError(received)));
    co_return;
  }
  const absl::StatusOr<v1::ImportSessionResponse> made = co_await call->Finish();
  Response answer = made.ok() ? JsonResponse(Dump(ToJson(made->session())), 201)
                              : ErrorResponse(SessionError(made.status()));
  co_await exchange.Respond(std::move(answer));
}

}  // namespace

void AddSnapshots(Services& services, Router* router) {
  router->Add("POST", "/v1/sessions/import", [&services](Exchange& exchange, const PathFields&) {
    return Import(services, exchange);
  });
  router->Add("GET", "/v1/sessions/{id}/export",
              [&services](Exchange& exchange, const PathFields& path) {
                return Export(services, exchange, TargetOf(exchange, path));
              });
}

}  // namespace tvq::gateway
