// The store behind SessionStore: parts with one job each, and what runs them once a second.
#ifndef TVQ_SERVER_SESSIONS_STORE_STORE_H_
#define TVQ_SERVER_SESSIONS_STORE_STORE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "base/ticker.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/claims.h"
#include "server/sessions/store/commits.h"
#include "server/sessions/store/common_prompts.h"
#include "server/sessions/store/context.h"
#include "server/sessions/store/leases.h"
#include "server/sessions/store/loader.h"
#include "server/sessions/store/maker.h"
#include "server/sessions/store/neighbours.h"
#include "server/sessions/store/places.h"
#include "server/sessions/store/reader.h"
#include "server/sessions/store/saver.h"
#include "server/sessions/store/session_table.h"
#include "server/sessions/store/sweeper.h"
#include "server/sessions/store/transfers.h"
#include "server/sessions/store/version_tree.h"

namespace tvq {

class Store final : public SessionStore {
 public:
  using Clock = std::function<absl::Time()>;  // wall time

  static absl::StatusOr<std::unique_ptr<Store>> Open(
      Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
      Clock clock, std::unique_ptr<DurableTier> prefixes = nullptr);
  ~Store() override;

  absl::StatusOr<SessionView> Create(const std::string& owner,
                                     const CreateOptions& options) override {
    return maker_.Create(owner, options);
  }
  absl::StatusOr<SessionView> Get(const std::string& owner, const std::string& id) override {
    return reader_.Get(owner, id);
  }
  absl::StatusOr<SessionTranscript> Transcript(const std::string& owner,
                                               const std::string& id) override {
    return reader_.Transcript(owner, id);
  }
  absl::StatusOr<SessionPage> List(const std::string& owner, const ListFilter& filter,
                                   int64_t page_size, const std::string& page_token) override {
    return reader_.List(owner, filter, page_size, page_token);
  }
  absl::StatusOr<std::vector<SessionView>> Fork(const SessionCall& call,
                                                const ForkOptions& options) override {
    return tree_.Fork(call, options);
  }
  absl::StatusOr<SessionView> Mark(const SessionCall& call, const std::string& name) override {
    return tree_.Mark(call, name);
  }
  absl::StatusOr<SessionView> Unmark(const SessionCall& call, const std::string& name) override {
    return tree_.Unmark(call, name);
  }
  absl::StatusOr<SessionView> Rewind(const SessionCall& call, const std::string& name) override {
    return tree_.Rewind(call, name);
  }
  absl::StatusOr<SessionView> Save(const SessionCall& call) override;
  absl::Status Delete(const SessionCall& call) override;
  absl::StatusOr<std::unique_ptr<SnapshotStream>> Export(const SessionCall& call,
                                                         const ExportRoom& room) override {
    return transfers_.Export(call, room);
  }
  int64_t max_upload_bytes() const override { return transfers_.max_upload_bytes(); }
  std::unique_ptr<SnapshotUpload> NewUpload() override { return transfers_.NewUpload(); }
  absl::StatusOr<SessionView> Import(const std::string& owner, const CreateOptions& options,
                                     std::unique_ptr<SnapshotUpload> upload) override {
    return transfers_.Import(owner, options, std::move(upload));
  }
  absl::StatusOr<std::unique_ptr<Lease>> Acquire(const SessionCall& call) override;
  absl::StatusOr<std::optional<StartPoint>> StartFrom(
      const std::string& model, std::unique_ptr<SnapshotUpload> upload) override {
    return transfers_.StartFrom(model, std::move(upload));
  }
  absl::StatusOr<std::unique_ptr<SnapshotStream>> ToSnapshot(const std::string& model,
                                                             Continuation end) override {
    return transfers_.ToSnapshot(model, std::move(end));
  }
  void UsePrefixes(Request* request) override { common_prompts_.Use(request); }
  int64_t Flush(SteadyTime until) override { return saver_.Flush(until); }
  std::vector<SessionRecord> Records() const override;
  void Leave() override { context_.leaving = true; }
  bool shares_storage() const override { return context_.shares_storage(); }
  SessionStats stats() const override;

  // Done every second anyway; for tests, which do not wait.
  Sweeper& sweeper() { return sweeper_; }
  Saver& saver() { return saver_; }
  Loader& loader() { return loader_; }
  Neighbours& neighbours() { return neighbours_; }

  // What an empty session of the model takes of the capacity.
  int64_t PlaceBytes(size_t model) const { return places_.EmptyBytes(model); }

 private:
  Store(Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
        Clock clock, int64_t capacity, std::vector<int64_t> empty_bytes);

  // Each uses those above it; tiers_ saves by saver_, too, until it is stopped.
  StoreContext context_;
  Places places_;
  const std::shared_ptr<Tiers> tiers_;
  CommonPrompts common_prompts_;
  SessionTable table_;
  Loader loader_;
  Claims claims_;
  Neighbours neighbours_;
  Saver saver_;
  Leases leases_;
  Commits commits_;
  Maker maker_;
  VersionTree tree_;
  Reader reader_;
  Transfers transfers_;
  Sweeper sweeper_;
  std::optional<Ticker> ticker_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_STORE_H_
