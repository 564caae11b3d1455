#include "simulator/context.h"

#include <asm/prctl.h>
#include <linux/futex.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#include <cstddef>
#include <utility>

#include "simulator/scheduler.h"

// What a call keeps (System V ABI): six registers, and the control words of both floating-point units. `rdx`: the base
// of the thread-local storage, or 0.
asm(R"(
  .text
  .globl verbena_change_context
  .hidden verbena_change_context
  .type verbena_change_context, @function
verbena_change_context:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  testq %rdx, %rdx
  jz 1f
  wrfsbase %rdx
1:
  movq %rsi, %rsp
  ldmxcsr (%rsp)
  fldcw 4(%rsp)
  addq $8, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size verbena_change_context, . - verbena_change_context

  .globl verbena_leave_stack
  .hidden verbena_leave_stack
  .type verbena_leave_stack, @function
verbena_leave_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  subq $8, %rsp
  stmxcsr (%rsp)
  fnstcw 4(%rsp)
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  movq %rcx, %rdi
  xorl %ebp, %ebp
  callq *%rdx
  ud2
  .size verbena_leave_stack, . - verbena_leave_stack
)");

extern "C" void verbena_change_context(void** from, void* to, uint64_t storage);
extern "C" void verbena_leave_stack(void** from, void* to, void (*function)(verbena::simulator::Context*),
                                    verbena::simulator::Context* argument);

namespace verbena::simulator {
namespace {

// Below what a thread uses, and above the end of its stack.
constexpr size_t other_stack_below = 1 << 20;
Context* ended = nullptr;  // by the last change: it is to be given back

bool sets_storage_itself() {
  constexpr unsigned long fsgsbase = 2;
  static const bool does = (getauxval(AT_HWCAP2) & fsgsbase) != 0;
  return does;
}

uint64_t storage_of_thread() {
  uint64_t base = 0;
  kernel(SYS_arch_prctl, ARCH_GET_FS, reinterpret_cast<long>(&base));
  return base;
}

void change(void** from, void* to, uint64_t storage) {
  if (!sets_storage_itself()) {
    kernel(SYS_arch_prctl, ARCH_SET_FS, static_cast<long>(storage));
    storage = 0;
  }
  verbena_change_context(from, to, storage);
}

void set(uint32_t& futex) {
  __atomic_store_n(&futex, 1, __ATOMIC_RELEASE);
  kernel(SYS_futex, reinterpret_cast<long>(&futex), FUTEX_WAKE_PRIVATE, 1);
}

void await(uint32_t& futex) {
  while (__atomic_load_n(&futex, __ATOMIC_ACQUIRE) == 0) {
    kernel(SYS_futex, reinterpret_cast<long>(&futex), FUTEX_WAIT_PRIVATE, 0);
  }
}

}  // namespace

void Context::begin() {
  storage_ = storage_of_thread();
  lent_ = 1;
}

void Context::lend() {
  storage_ = storage_of_thread();
  kernel_id_ = kernel(SYS_gettid);
  const auto here = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  verbena_leave_stack(&stack_, reinterpret_cast<void*>((here - other_stack_below) & ~uintptr_t{15}),
                      wait_on_other_stack, this);
  arrive();
}

void Context::wait_on_other_stack(Context* self) {
  set(self->lent_);
  await(self->given_back_);
  void* none = nullptr;
  verbena_change_context(&none, self->stack_, 0);
  __builtin_unreachable();
}

void Context::go_on_with(Context& next) {
  await(next.lent_);
  change(&stack_, next.stack_, next.storage_);
  arrive();
}

void Context::end(Context& next) {
  await(next.lent_);
  ended = this;
  change(&stack_, next.stack_, next.storage_);
}

// Which addresses the next allocations get would depend on how far a thread has come that is at its end.
void Context::arrive() {
  Context* const before = std::exchange(ended, nullptr);
  if (before == nullptr) return;
  set(before->given_back_);
  const long process = kernel(SYS_getpid);
  while (kernel(SYS_tgkill, process, before->kernel_id_, 0) == 0) kernel(SYS_sched_yield);
}

}  // namespace verbena::simulator
