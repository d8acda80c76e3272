#ifndef TVQ_SERVER_RPC_LIMITS_CONNECTIONS_ADMISSION_H_
#define TVQ_SERVER_RPC_LIMITS_CONNECTIONS_ADMISSION_H_

#include <chrono>
#include <set>
#include <string>

#include "absl/base/thread_annotations.h"
#include "base/mutex.h"

namespace tvq {

// Says when clients that have just connected are handed to gRPC, which reads what they have sent
// before other code can look at it. So a storm over new connections is never faster than the guard
// that closes them. Any thread.
class Admission {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // What a client has sent before it heard anything.
  enum class Load { kLight, kHeavy };  // no more than a beginning; a storm or a long request

  // What the guard has seen.
  struct Sight {
    bool crowded = false;  // clients without a key have begun more than is taken apart in time
    std::set<std::string> wary;  // networks of which connections were closed lately

    bool calm() const { return !crowded && wary.empty(); }
  };

  // How many may enter between two looks of the guard, and how many suspects of them: those that
  // sent much, or are of a wary network. gRPC may take in some thousand streams of each until then.
  static constexpr int kBetweenLooks = 32;
  static constexpr int kSuspectsBetweenLooks = 4;
  // Unless all is calm, they also enter one by one: kOften after the one before, and a suspect only
  // kRarely after the last suspect, for gRPC needs that long to clean up what it brings. In a
  // crowd, one that is no suspect enters every kRarely, and suspects do not enter.
  static constexpr std::chrono::milliseconds kOften{10};
  static constexpr std::chrono::milliseconds kRarely{250};

  // Whether a client of this network (NetworkOf) may enter now; it counts then.
  bool Enter(const std::string& network, Load load, Time now);

  // Whether a client may enter now that is not suspect. Where it may not, none may.
  bool IsOpen(Time now) const;

  // Whether it has sent much, or is of a wary network.
  bool IsSuspect(const std::string& network, Load load) const;

  // By the guard, again and again.
  void Looked(Sight sight);

 private:
  bool Suspects(const std::string& network, Load load) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  bool MayEnter(bool suspect, Time now) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);

  mutable Mutex mutex_;
  Sight sight_ ABSL_GUARDED_BY(mutex_);
  // Since the guard looked.
  int entered_ ABSL_GUARDED_BY(mutex_) = 0;
  int suspects_entered_ ABSL_GUARDED_BY(mutex_) = 0;
  Time last_ ABSL_GUARDED_BY(mutex_);
  Time last_suspect_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace tvq

#endif  // TVQ_SERVER_RPC_LIMITS_CONNECTIONS_ADMISSION_H_
