#ifndef TVQ_BASE_HOLD_HANG_UPS_H_
#define TVQ_BASE_HOLD_HANG_UPS_H_

namespace tvq {

// A program that links this holds SIGHUP back, blocked, from before the initialisers of its
// libraries on: main comes later than a supervisor may send it. From here on the calling thread,
// and those that it starts, receive it. A program that is started before inherits that it is
// blocked.
void ReleaseHangUps();

}  // namespace tvq

#endif  // TVQ_BASE_HOLD_HANG_UPS_H_
