// Snapshots in and out.
#include <utility>

#include "server/sessions/store.h"

namespace tvq {

absl::StatusOr<std::unique_ptr<SnapshotStream>> Store::Export(const SessionCall&) {
  return absl::UnimplementedError("export");
}
std::unique_ptr<SnapshotUpload> Store::NewUpload() { return nullptr; }
absl::StatusOr<SessionView> Store::Import(const std::string&, const CreateOptions&,
                                          std::unique_ptr<SnapshotUpload>) {
  return absl::UnimplementedError("import");
}
absl::StatusOr<SessionView> Store::Adopt(std::unique_ptr<SnapshotUpload>) {
  return absl::UnimplementedError("adopt");
}
absl::StatusOr<std::optional<StartPoint>> Store::StartFrom(const std::string&,
                                                           std::unique_ptr<SnapshotUpload>) {
  return absl::UnimplementedError("state");
}
absl::StatusOr<std::unique_ptr<SnapshotStream>> Store::ToSnapshot(const std::string&,
                                                                  Continuation) {
  return absl::UnimplementedError("state");
}
void Store::UsePrefixes(Request*) {}
}  // namespace tvq
