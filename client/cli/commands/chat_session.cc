#include "client/cli/commands/chat_session.h"

#include <utility>

#include "absl/status/status.h"
#include "client/cli/commands/chat_file.h"
#include "client/cli/commands/settled.h"

namespace tvq::cli {

std::string ChatSession::id() const {
  const MutexLock lock(&mutex_);
  return id_;
}

bool ChatSession::stays() const {
  const MutexLock lock(&mutex_);
  return stays_ != Stays::kNever;
}

void ChatSession::Keep() {
  const MutexLock lock(&mutex_);
  stays_ = Stays::kAlways;
}

void ChatSession::GoOnIn(const std::string& id) {
  const MutexLock lock(&mutex_);
  id_ = id;
  stays_ = Stays::kAlways;
}

void ChatSession::End(const client::CallOptions& call, absl::Duration patience) {
  v1::DeleteSessionRequest request;
  Stays stays;
  {  // not longer: another thread may end the process meanwhile
    const MutexLock lock(&mutex_);
    request.mutable_session()->set_session_id(id_);
    stays = std::exchange(stays_, Stays::kAlways);
  }
  client::Sessions& sessions = client_.sessions();
  if (stays == Stays::kAlways) return;
  if (stays == Stays::kNever) {  // of which no file was made
    UntilSettled(patience, [&] { return sessions.Delete(request, call); }).IgnoreError();
    return;
  }
  v1::GetSessionRequest get;
  get.set_session_id(begun_.id());
  const auto found = sessions.Get(get, call);
  if (!found.ok()) return;
  const v1::Session& now = found->session();
  const bool is_used = now.position() > 0 || now.version() != begun_.version() ||
                       now.persisted_version() != begun_.persisted_version();
  if (is_used) return;
  request.mutable_session()->set_expected_version(begun_.version());
  if (sessions.Delete(request, call).ok()) DeleteChatFile(begun_.id()).IgnoreError();
}

}  // namespace tvq::cli
