#include "server/startup/signal_thread.h"

#include <pthread.h>

#include <csignal>
#include <thread>
#include <utility>

namespace tvq {

void ReceiveSignals(std::initializer_list<int> signals, std::function<void(int)> receive) {
  sigset_t wanted, all, before;
  sigemptyset(&wanted);
  for (const int signal : signals) sigaddset(&wanted, signal);
  sigfillset(&all);
  // The thread inherits that all are blocked: it must not die of one that another waits for.
  pthread_sigmask(SIG_BLOCK, &all, &before);
  // Ends with the process: nothing but a signal wakes sigwait.
  std::thread([wanted, receive = std::move(receive)] {
    while (true) {
      int signal = 0;
      if (sigwait(&wanted, &signal) == 0) receive(signal);
    }
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_sigmask(SIG_BLOCK, &wanted, nullptr);
}

}  // namespace tvq
