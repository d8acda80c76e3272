#ifndef TVQ_BASE_HOLD_HANG_UPS_H_
#define TVQ_BASE_HOLD_HANG_UPS_H_

namespace tvq {

// A program that links this blocks SIGHUP before the initialisers of its libraries run, because a
// supervisor may send it before main begins. This unblocks it for the calling thread, and for those
// that it starts. A child process that is started earlier inherits the blocked signal.
void ReleaseHangUps();

}  // namespace tvq

#endif  // TVQ_BASE_HOLD_HANG_UPS_H_
