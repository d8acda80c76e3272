// The store behind SessionStore.
#ifndef TVQ_SERVER_SESSIONS_STORE_STORE_H_
#define TVQ_SERVER_SESSIONS_STORE_STORE_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"
#include "base/ticker.h"
#include "server/sessions/placement/capacity.h"
#include "server/sessions/placement/prefix_cache.h"
#include "server/sessions/placement/stored_prefixes.h"
#include "server/sessions/placement/tiers.h"
#include "server/sessions/session_store.h"
#include "server/sessions/store/session.h"
#include "server/sessions/store/session_table.h"

namespace tvq {

// INVALID_ARGUMENT for a label, time-to-live or idempotency key that no call can have.
absl::Status CheckNaming(const std::string& label, const std::optional<absl::Duration>& ttl,
                         const std::string& idempotency_key);

// One mutex guards the table of sessions, with short sections: no state is copied, and no disk or
// network waited for, while it is held. What takes long works on the immutable content of a session
// and is put into the table at its end. Locks are taken in the order SessionEntry::saving, the
// store's, those of Tiers and Capacity.
class Store final : public SessionStore {
 public:
  using EntryPtr = std::shared_ptr<SessionEntry>;
  using Clock = std::function<absl::Time()>;  // wall time

  static absl::StatusOr<std::unique_ptr<Store>> Open(
      Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
      Clock clock, std::unique_ptr<DurableTier> prefixes = nullptr);
  ~Store() override;

  absl::StatusOr<SessionView> Create(const std::string& owner,
                                     const CreateOptions& options) override;
  absl::StatusOr<SessionView> Get(const std::string& owner, const std::string& id) override;
  absl::StatusOr<SessionTranscript> Transcript(const std::string& owner,
                                               const std::string& id) override;
  absl::StatusOr<SessionPage> List(const std::string& owner, const ListFilter& filter,
                                   int64_t page_size, const std::string& page_token) override;
  absl::StatusOr<std::vector<SessionView>> Fork(const SessionCall& call,
                                                const ForkOptions& options) override;
  absl::StatusOr<SessionView> Mark(const SessionCall& call, const std::string& name) override;
  absl::StatusOr<SessionView> Unmark(const SessionCall& call, const std::string& name) override;
  absl::StatusOr<SessionView> Rewind(const SessionCall& call, const std::string& name) override;
  absl::StatusOr<SessionView> Save(const SessionCall& call) override;
  absl::Status Delete(const SessionCall& call) override;
  absl::StatusOr<std::unique_ptr<SnapshotStream>> Export(const SessionCall& call,
                                                         const ExportRoom& room) override;
  int64_t max_upload_bytes() const override;
  std::unique_ptr<SnapshotUpload> NewUpload() override;
  absl::StatusOr<SessionView> Import(const std::string& owner, const CreateOptions& options,
                                     std::unique_ptr<SnapshotUpload> upload) override;
  absl::StatusOr<std::unique_ptr<Lease>> Acquire(const SessionCall& call) override;
  absl::StatusOr<std::optional<StartPoint>> StartFrom(
      const std::string& model, std::unique_ptr<SnapshotUpload> upload) override;
  absl::StatusOr<std::unique_ptr<SnapshotStream>> ToSnapshot(const std::string& model,
                                                             Continuation end) override;
  void UsePrefixes(Request* request) override;
  int64_t Flush(SteadyTime until) override;
  std::vector<SessionRecord> Records() const override;
  void Leave() override { leaving_ = true; }
  bool shares_storage() const override { return durable_ != nullptr && durable_->shared(); }
  SessionStats stats() const override;

  // Done every second anyway, each a limited number of sessions at a time. Deletes sessions whose
  // time-to-live is over; returns how many.
  int64_t DeleteExpired();
  // Tells a shared tier of uses, so that no other server ends what is used here.
  void StoreUses();
  // Sees whether the durable tier has lost its data.
  void CheckInstance();
  // Stores on a shared tier some of what was made while it was away.
  void StoreOwed();
  // Forgets transcripts and replies where only the durable tier has the state, too; returns of how
  // many sessions. Done every second anyway.
  int64_t UnloadParked();
  // What an empty session of the model takes of the capacity.
  int64_t PlaceBytes(size_t model) const { return place_bytes_[model]; }

 private:
  // The exclusive right to change one session.
  class Hold {
   public:
    Hold(Store* store, EntryPtr entry) : store_(store), entry_(std::move(entry)) {}
    Hold(Hold&&) = default;
    ~Hold() {
      if (entry_ != nullptr) store_->Release(*entry_);
    }
    SessionEntry& entry() const { return *entry_; }

   private:
    Store* store_;
    EntryPtr entry_;
  };
  // A call that may change a session, or has done so already.
  struct Begun {
    EntryPtr entry;
    std::optional<Hold> hold;                          // unset: there is a reply
    std::optional<std::string> reply;                  // of an earlier call with the same key
    std::shared_ptr<const CheckpointHead> state_head;  // null without a state
  };
  // Where a call on a session goes on, now or in its past.
  struct Place {
    std::shared_ptr<Checkpoint> checkpoint;  // null at position 0
    CheckpointHead head;
    TokenLog tokens;
    std::optional<AnswerEnd> answer_end;

    int64_t position() const { return head.position + std::ssize(head.pending); }
  };
  class StoreLease;
  using ContentPtr = std::shared_ptr<const SessionContent>;
  using Edit = std::function<absl::Status(SessionContent& next)>;

  Store(Engine* engine, const SessionOptions& options, std::unique_ptr<DurableTier> durable,
        Clock clock, int64_t capacity, std::vector<int64_t> place_bytes);

  // store_calls.cc
  absl::Status CheckDurability(Durability durability) const;
  static EntryPtr NewEntry(SessionContent content);  // leased
  absl::StatusOr<size_t> ModelIndex(const std::string& name) const;
  const Model& model(size_t index) const { return *engine_->models()[index].model; }
  // Bytes of the present state on the device, and what it takes of the capacity.
  int64_t Bytes(const SessionContent& content) const;
  // What the image of a state at `position` takes at most.
  int64_t LargestImage(size_t model, int64_t position) const;
  // That, with a transcript of so many ids if the session keeps one, but without replies.
  int64_t PlaceBytes(const SessionContent& content, int64_t position) const;
  // What the marks take in a stored record.
  int64_t MarksBytes(const SessionContent& content) const;
  int64_t PresentBytes(const SessionContent& content) const;
  // For the owner of `content`, whose present state or mark it is to be.
  absl::StatusOr<Moment> NewMoment(const SessionContent& content, const Moment& like,
                                   int64_t position);
  // Puts sessions that are leased into the table; all or none. ABORTED unless there are `made`
  // others of the same call.
  absl::Status Enter(const std::vector<EntryPtr>& entries, size_t made);
  // Whether the owner may have so many more.
  absl::Status CheckCount(const std::string& owner, int64_t more) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stores them, as `durability` wants it, and ends their leases; all or none.
  absl::StatusOr<std::vector<SessionView>> FinishMaking(const std::vector<EntryPtr>& entries,
                                                        Durability durability);
  // Both, of the one session that a call makes.
  absl::StatusOr<SessionView> Insert(EntryPtr entry, Durability durability);
  // For a retry: what the call with the record's creation_key has made, as CreatedBy of the table
  // finds it, and stored if `durability` wants that. ABORTED while that call is under way,
  // INVALID_ARGUMENT if it asked something else.
  absl::StatusOr<std::vector<SessionView>> Made(const SessionRecord& wanted, Durability durability);
  absl::StatusOr<EntryPtr> Find(const std::string& owner, const std::string& id) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Runs `read` on the committed version of a session, again on the next one if a commit meanwhile
  // has dropped what was stored of it. What it reads is of one version.
  using Reading = std::function<absl::Status(const SessionContent&, const SessionView&)>;
  absl::Status ReadCommitted(const std::string& owner, const std::string& id, const Reading& read);
  SessionView View(const SessionEntry& entry) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The durable copy first, so that what cannot be deleted there stays whole.
  absl::Status Remove(SessionEntry& entry);
  // Into the table and out of it.
  void Enlist(EntryPtr entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Drop(SessionEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Adds what the totals count of an entry of the table, or takes it back with `sign` -1.
  void Count(const SessionEntry& entry, int64_t sign) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Stands around every change of what they count. Under the mutex.
  class Recount {
   public:
    Recount(Store* store, const SessionEntry& entry) ABSL_NO_THREAD_SAFETY_ANALYSIS
        : store_(store),
          entry_(entry) {
      store_->Count(entry_, -1);
    }
    ~Recount() ABSL_NO_THREAD_SAFETY_ANALYSIS { store_->Count(entry_, 1); }

   private:
    Store* const store_;
    const SessionEntry& entry_;
  };

  // store_tree.cc
  absl::StatusOr<SessionContent> Child(const SessionContent& parent, const SessionCall& call,
                                       const ForkOptions& options);
  // Another like a fork that is as it was made.
  absl::StatusOr<SessionContent> Twin(const SessionContent& fork);
  // The content of one of the forks that is as it was made; ABORTED if there is none.
  absl::StatusOr<ContentPtr> Untouched(const std::vector<SessionView>& forks) const;

  // store_lease.cc
  static absl::Status Busy(const std::string& id);
  static absl::Status NotServed(const SessionRecord& record);
  static absl::Status CheckVersion(const SessionCall& call, const SessionRecord& record);
  // `kind` is part of what a call with an idempotency key asks.
  absl::StatusOr<Begun> Begin(const SessionCall& call, CallKind kind);
  // Leaves neither a reply nor a hold if the session is not this server's, or not any more.
  absl::Status Lock(const SessionCall& call, CallKind kind, Begun& begun);
  // Loads what the leased session lacks, and looks whether the call is to be done.
  absl::Status Look(const SessionCall& call, CallKind kind, Begun& begun);
  void Release(SessionEntry& entry);
  // Makes `next` the content of the session: version + 1. Its place is resized, `frees` even
  // without room: a commit that gives up more in return is not refused.
  absl::StatusOr<SessionView> Commit(const Hold& hold, SessionContent next, Durability durability,
                                     bool frees = false);
  // `past`: where the call went on; null: now.
  absl::StatusOr<SessionView> CommitComputed(const SessionCall& call, Begun& begun,
                                             const Place* past, Continuation next,
                                             const std::string& reply);

  // store_go_back.cc
  // See Lease::GoBack.
  absl::StatusOr<Place> LastPlace(const Begun& begun, std::span<const int32_t> tokens);

  // store_lease.cc
  // Gives the place of a leased session's present state the size that this needs.
  void FitPlace(const SessionEntry& entry);
  // See Lease::Reserve.
  absl::Status ReserveGrowth(const SessionContent& content, int64_t position);
  absl::StatusOr<SessionView> Replayed(const Begun& begun) const;
  // A call that changes what is known of a session by pointers alone.
  absl::StatusOr<SessionView> Change(const SessionCall& call, CallKind kind, const Edit& edit);
  // Brings to the device or host memory what is to be held under one more version and only the
  // durable tier has, and keeps it there.
  absl::StatusOr<std::vector<Tiers::Pin>> Anchor(const std::vector<HeldPlace>& added);
  // Exchanges the content, and returns what was there, to be let go without the lock. `holds` is
  // what that changes.
  ContentPtr Install(SessionEntry& entry, ContentPtr next, const HoldsChange& holds, bool stored)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // store_durable.cc
  absl::Status LoadStored();
  static SnapshotHead Head(const SessionRecord& record, int64_t version, const Moment& moment,
                           const Replies& replies, int64_t state_bytes);
  EntryPtr FromRecord(SessionRecord record, bool claimed);
  // Reads what is missing of a moment that is stored as `version` of the session.
  absl::Status Load(const SessionContent& content, int64_t version, Moment& moment,
                    Replies* replies, std::shared_ptr<const CheckpointHead>* state_head = nullptr);
  absl::Status LoadPresent(const Hold& hold, std::shared_ptr<const CheckpointHead>& state_head);
  absl::Status PutMoment(const SessionRecord& record, int64_t version, const Moment& moment,
                         const Replies& replies, size_t model);
  // Everything of a content that is not stored yet; `record` is its record.
  absl::Status Put(const SessionContent& content, SessionRecord record);
  absl::Status Persist(const std::string& id);
  absl::Status Persist(SessionEntry& entry);
  // Persists what a call has made, if `durability` wants it, several at once.
  absl::Status PersistMade(const std::vector<EntryPtr>& entries, Durability durability);
  // UnloadParked, of some.
  int64_t Unload(std::span<std::string> ids);
  // Persists what a call has leased. ABORTED if another server has the session.
  absl::Status SaveHeld(SessionEntry& entry);

  // store_transfer.cc
  // A snapshot's head, and the models that its state is to be tried with.
  struct Uploaded {
    SnapshotHead head;
    std::vector<size_t> models;
  };
  // A snapshot whose state was loaded, which proves that there is such a state.
  struct Checked {
    SnapshotHead head;
    size_t model = 0;
    std::optional<Continuation> state;  // unset at position 0
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
  // Of a moment of the content, which is of the record's version.
  absl::StatusOr<std::unique_ptr<SnapshotStream>> Snapshot(const SessionContent& content,
                                                           const SessionRecord& record,
                                                           Moment moment, Replies replies,
                                                           const ExportRoom& room);

  std::atomic<int> imports_waiting_ = 0;  // for room on the device

  // store_prefixes.cc
  absl::Status OpenPrefixes(std::unique_ptr<DurableTier> tier);
  absl::Status FeedSharedPrompts();

  // store_sweep.cc
  // Tells the durable tier of the session's last use.
  absl::Status StoreUse(SessionEntry& entry, absl::Time used);
  // Ends a session whose time is over as far as is known here; false if it was used elsewhere.
  absl::StatusOr<bool> Expire(const EntryPtr& entry, absl::Time now);
  absl::StatusOr<bool> ExpireUnclaimed(SessionEntry& entry, absl::Time now);

  // store_shared.cc: a durable tier that other servers use too.
  static absl::Status Overtaken(const std::string& id);
  // Until no call is claiming the session.
  void AwaitClaim(const std::string& id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Brings what is known of the session up to date, and makes it this server's if `claim`, unless
  // another call changes meanwhile what is known.
  absl::Status Refresh(const std::string& owner, const std::string& id, bool claim);
  // Learns what other servers have stored and deleted, unless that is being done, or was done just
  // now. Without the tier what is known stays.
  absl::Status LearnStored();
  // What is stored of the session now; nothing: no record was found.
  void Learn(const std::string& id, std::optional<SessionRecord> record);
  // Learns of the stored sessions that a call with the record's creation_key made elsewhere.
  absl::Status FindMade(const SessionRecord& wanted);
  // How the stored record of a session that this server claimed compares to what is here.
  enum class Held {
    kYes,
    kOvertaken,  // another server has claimed or deleted it
    kMoved,      // another version is stored than this server was told, and its own is nowhere
  };
  absl::StatusOr<Held> Compare(SessionEntry& entry);
  // Reads the session anew, which is known as `known`, null for not at all.
  absl::Status Reload(const std::string& owner, const std::string& id, const EntryPtr& known,
                      Held held, bool claim);
  // Puts `next`, null if there is none any more, in the place of `known`. The caller has leased or
  // is claiming the session if it is `alone`; if not, a call that claims it meanwhile knows better,
  // and false, and nothing is changed, if a call has leased it.
  bool Replace(const std::string& id, const EntryPtr& known, EntryPtr next, Held held, bool alone);
  // The durable tier refused what this server wanted to write: if that is because another server
  // has the session now, what is stored takes the place of what is here.
  void GiveUpIfOvertaken(SessionEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(entry.saving);
  // What was thought to be stored up to `persisted_version` is not, or no longer.
  void Unstore(SessionEntry& entry, int64_t persisted_version);

  Engine* const engine_;
  const SessionOptions options_;
  const std::unique_ptr<DurableTier> durable_;
  const Clock clock_;
  std::atomic<bool> leaving_ = false;       // see Leave
  std::atomic<bool> stopping_ = false;      // what goes through many sessions comes to an end
  const std::vector<int64_t> place_bytes_;  // by model
  Capacity capacity_;                       // before whatever holds places
  const std::shared_ptr<Tiers> tiers_;

  // Constant after Open. Null if none are stored, or kept.
  std::unique_ptr<StoredPrefixes> stored_prefixes_;
  std::shared_ptr<PrefixCache> prefixes_;

  mutable Mutex mutex_;
  SessionTable table_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> claiming_ ABSL_GUARDED_BY(mutex_);  // ids, each by one call
  Changed claimed_;
  bool learning_ ABSL_GUARDED_BY(mutex_) = false;          // LearnStored is at it
  std::set<std::string> dropped_ ABSL_GUARDED_BY(mutex_);  // ids, since it began
  std::chrono::steady_clock::time_point learn_again_ ABSL_GUARDED_BY(mutex_);
  std::string instance_ ABSL_GUARDED_BY(mutex_);     // of the durable tier; empty: not asked yet
  SessionTable::End swept_ ABSL_GUARDED_BY(mutex_);  // the last that a sweep has looked at
  // Since start; but `leased`, `unsaved` and the sessions without tokens, by place, are those of
  // now.
  SessionStats totals_ ABSL_GUARDED_BY(mutex_);
  // Made while a shared tier was away, and to be stored there.
  std::deque<EntryPtr> owing_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> parked_ ABSL_GUARDED_BY(mutex_);  // ids for UnloadParked to look at

  std::optional<Ticker> ticker_;  // last: it uses all of the above
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_STORE_H_
