// How much of the capacity sessions take: each present state and each mark has a place there.
#ifndef TVQ_SERVER_SESSIONS_STORE_PLACES_H_
#define TVQ_SERVER_SESSIONS_STORE_PLACES_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/sessions/placement/capacity.h"
#include "server/sessions/store/content.h"
#include "server/sessions/store/context.h"

namespace tvq {

// Thread-safe.
class Places {
 public:
  // `empty_bytes`: of the largest image of an empty state, by model.
  Places(const StoreContext& context, std::vector<int64_t> empty_bytes, int64_t capacity);

  // Bytes of the present state on the device.
  int64_t StateBytes(const SessionContent& content) const;
  // What the image of a state at `position` takes at most.
  int64_t LargestImage(size_t model, int64_t position) const;
  // That, with a transcript of so many ids if the session keeps one, but without replies.
  int64_t VersionBytes(const SessionContent& content, int64_t position) const;
  // What the marks take in a stored record.
  int64_t MarksBytes(const SessionContent& content) const;
  // What the present version takes, with replies and the marks' records.
  int64_t PresentBytes(const SessionContent& content) const;
  // What an empty session of the model takes.
  int64_t EmptyBytes(size_t model) const { return empty_bytes_[model]; }

  // RESOURCE_EXHAUSTED if there is no room, or the owner may have no more.
  absl::StatusOr<std::shared_ptr<Capacity::Place>> Reserve(const std::string& owner, int64_t bytes);
  // For what is stored already.
  std::shared_ptr<Capacity::Place> Force(const std::string& owner, int64_t bytes);
  // Gives the place of a leased session's present state the size that this needs.
  void Fit(const SessionContent& content) const;
  // See Lease::Reserve.
  absl::Status ReserveGrowth(const SessionContent& content, int64_t position) const;

 private:
  const StoreContext& context_;
  const std::vector<int64_t> empty_bytes_;
  Capacity capacity_;
};

}  // namespace tvq

#endif  // TVQ_SERVER_SESSIONS_STORE_PLACES_H_
