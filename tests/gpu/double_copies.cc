// Copies by a CPU, seen: the C library's functions for them stand here, before its own for all of a program that is
// linked with this library, and note those of bytes that a test watches. Copies by the double's devices are not
// among them, nor are those whose instructions a compiler or a program has in place of a call.
#include <cstring>

#include "double.h"
#include "double_world.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define DOUBLE_IS_SANITIZED
#endif
#endif

#if defined(__x86_64__) && !defined(DOUBLE_IS_SANITIZED)
#define DOUBLE_SEES_COPIES
#endif

namespace {

std::atomic<int> watched{-1};
std::atomic<uint64_t> copied{0};

#ifdef DOUBLE_SEES_COPIES
constexpr size_t seen_from = 64;

// Without a call of the functions below.
void note(const void* from, size_t size) {
  const int byte = watched.load(std::memory_order_relaxed);
  if (byte < 0 || size < seen_from || cuda_double::copying) return;
  const auto* const bytes = static_cast<const volatile unsigned char*>(from);
  for (size_t i = 0; i < seen_from; ++i) {
    if (bytes[i] != byte) return;
  }
  copied += size;
}
#endif

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

#ifdef DOUBLE_SEES_COPIES
void* memcpy(void* __restrict to, const void* __restrict from, size_t size) {
  note(from, size);
  void* at = to;
  __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size) : : "memory");
  return to;
}
void* memmove(void* to, const void* from, size_t size) {
  note(from, size);
  const auto distance = reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from);
  if (distance >= size) {
    void* at = to;
    __asm__ volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size) : : "memory");
  } else if (distance != 0) {
    auto* const into = static_cast<volatile unsigned char*>(to);
    const auto* const bytes = static_cast<const volatile unsigned char*>(from);
    while (size-- > 0) into[size] = bytes[size];
  }
  return to;
}
bool double_sees_copies() { return true; }
void double_note_copy(const void* from, size_t size) { note(from, size); }
#else
bool double_sees_copies() { return false; }
void double_note_copy(const void*, size_t) {}
#endif

void double_watch_copies(int byte) {
  watched = byte;
  copied = 0;
}
uint64_t double_copied() { return copied; }
}
#pragma GCC visibility pop
