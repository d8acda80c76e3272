#ifndef TVQ_SERVER_STARTUP_SIGNAL_THREAD_H_
#define TVQ_SERVER_STARTUP_SIGNAL_THREAD_H_

#include <functional>
#include <initializer_list>

namespace tvq {

// Blocks the signals in the calling thread, and so in those that it starts later, and starts a
// thread that calls `receive` for each that comes, until the process ends. Call it before other
// threads start; those of other calls do not take the signals either.
void ReceiveSignals(std::initializer_list<int> signals, std::function<void(int)> receive);

}  // namespace tvq

#endif  // TVQ_SERVER_STARTUP_SIGNAL_THREAD_H_
