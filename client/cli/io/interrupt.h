#ifndef TVQ_CLIENT_CLI_IO_INTERRUPT_H_
#define TVQ_CLIENT_CLI_IO_INTERRUPT_H_

#include <functional>
#include <memory>

namespace tvq::cli {

// Ctrl-C: cancels the call in progress, so that the server frees its place at once; without one,
// and at the second Ctrl-C during one, ends the process. So do SIGHUP, as of a terminal that is
// closed, and SIGTERM, unless they are ignored. Construct it before any other thread starts.
class Interrupt {
 public:
  Interrupt();

  // Calls `cancel`, in another thread, when Ctrl-C comes before the guard is destroyed. If guards
  // are nested, only the innermost one calls, and it does so at once if Ctrl-C has come since the
  // outermost one was made.
  class Guard {
   public:
    Guard(Interrupt& interrupt, std::function<void()> cancel);
    ~Guard();
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Interrupt& interrupt_;
    std::function<void()> outer_;  // what the guard around this one calls, if there is one
  };

  // What is still to be done when a signal ends the process, in another thread; null: nothing. The
  // one before is called no more.
  void AtEnd(std::function<void()> last);

  // Whether Ctrl-C came since the latest guard was made that has none around it.
  bool happened() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

}  // namespace tvq::cli

#endif  // TVQ_CLIENT_CLI_IO_INTERRUPT_H_
