// Snapshots in and out.
#ifndef TVQ_SERVER_SESSIONS_STORE_TRANSFERS_H_
#define TVQ_SERVER_SESSIONS_STORE_TRANSFERS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/engine/request/continuation.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/session_store.h"
#include "server/sessions/snapshot/blob.h"
#include "server/sessions/snapshot/snapshot.h"
#include "server/sessions/snapshot/snapshot_stream.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/maker.h"
#include "server/sessions/store/places.h"
#include "server/sessions/store/reader.h"

namespace tvq {

// The calls of SessionStore with these names. Thread-safe.
class Transfers {
 public:
  Transfers(const StoreContext& context, const Places& places, Tiers& tiers, Loader& loader,
            Reader& reader, Maker& maker)
      : context_(context),
        places_(places),
        tiers_(tiers),
        loader_(loader),
        reader_(reader),
        maker_(maker) {}

  absl::StatusOr<std::unique_ptr<SnapshotStream>> Export(const SessionCall& call,
                                                         const ExportRoom& room);
  int64_t max_upload_bytes() const;
  std::unique_ptr<SnapshotUpload> NewUpload() const;
  absl::StatusOr<SessionView> Import(const std::string& owner, const CreateOptions& options,
                                     std::unique_ptr<SnapshotUpload> upload);
  absl::StatusOr<std::optional<StartPoint>> StartFrom(const std::string& model,
                                                      std::unique_ptr<SnapshotUpload> upload);
  absl::StatusOr<std::unique_ptr<SnapshotStream>> ToSnapshot(const std::string& model,
                                                             Continuation end);

 private:
  // A snapshot's head, and the models that its state is to be tried with.
  struct Uploaded {
    SnapshotHead head;
    std::vector<size_t> models;
  };
  // A snapshot whose state was loaded, which proves that there is such a state.
  struct Checked {
    SnapshotHead head;
    size_t model = 0;
    std::optional<Continuation> state;  // unset at position 0 with nothing pending
  };
  absl::StatusOr<std::unique_ptr<SnapshotStream>> OpenExport(const SessionCall& call,
                                                             const SessionContent& content,
                                                             SessionRecord record,
                                                             const ExportRoom& room);
  absl::StatusOr<Uploaded> Open(const std::string& model_name, const Blob& blob,
                                ByteSource* source);
  absl::StatusOr<Checked> Check(const std::string& model_name,
                                std::unique_ptr<SnapshotUpload> upload);
  absl::StatusOr<SessionContent> ContentOf(Checked checked);

  const StoreContext& context_;
  const Places& places_;
  Tiers& tiers_;
  Loader& loader_;
  Reader& reader_;
  Maker& maker_;
  std::atomic<int> imports_waiting_ = 0;  // for room on the device
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_TRANSFERS_H_
