// How much one owner may take of what all share, so that another that comes finds some. No state.
#ifndef TVQ_BASE_FAIR_SHARE_H_
#define TVQ_BASE_FAIR_SHARE_H_

#include <cstdint>

namespace tvq {

// A sixteenth of the total, rounded down, is kept for owners that take nothing yet. Of the rest an
// owner may have at most `times` what it leaves to others (Choudhury and Hahne, "Dynamic Queue
// Length Thresholds", 1998).
class FairShare {
 public:
  constexpr FairShare(int64_t total, int64_t times) : total_(total), times_(times) {}

  // What owners that take something have together at most.
  constexpr int64_t common() const { return total_ - total_ / 16; }
  // Whether an owner that takes something may have `mine` in all, when all take `all` with that.
  // Numbers may be as large as there are.
  constexpr bool MayHave(int64_t mine, int64_t all) const {
    return mine / times_ + (mine % times_ > 0 ? 1 : 0) <= common() - all;
  }
  // Whether one that takes nothing may take `more` beside the `all` that are taken. If there is
  // only what is kept, half of what is left, so that others find some, too.
  constexpr bool MayBegin(int64_t more, int64_t all) const {
    return all == 0 || more <= common() - all || more <= (total_ - all) / 2;
  }

 private:
  int64_t total_;
  int64_t times_;
};

}  // namespace tvq

#endif  // TVQ_BASE_FAIR_SHARE_H_
