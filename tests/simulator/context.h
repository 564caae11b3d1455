// Contexts of threads on one kernel thread: a change of turns is a change of stacks, without the kernel.
//
// A thread is made by pthread_create() as ever, which gives it a stack and thread-local storage. Its kernel thread then
// lends both: it waits on another small stack, while the kernel thread that runs the world goes on with them. At the
// thread's end it has them back, and ends as the C library means it to.
#pragma once

#include <cstdint>

namespace verbena::simulator {

class Context {
 public:
  // Of the calling thread, which runs the world from here on.
  void begin();
  // Of the calling thread, a new one: lends itself. Returns on the kernel thread that runs the world, once that goes on
  // with it.
  void lend();
  // From the calling thread to that one, until a thread goes on with this one.
  void go_on_with(Context& next);
  // The same for ever. Returns on the thread's own kernel thread.
  void end(Context& next);

 private:
  [[noreturn]] static void wait_on_other_stack(Context* self);
  static void arrive();

  void* stack_ = nullptr;               // where its registers are
  uint64_t storage_ = 0;                // the base of its thread-local storage
  uint32_t lent_ = 0, given_back_ = 0;  // futexes
  long kernel_id_ = 0;                  // of the kernel thread that lends it
};

}  // namespace verbena::simulator
