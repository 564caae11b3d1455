// A single-producer single-consumer ring of messages in memory that both ends can write.
//
// Each end keeps its own index privately and only publishes it; the other end's index and every length are copied once
// and then checked, so a malicious peer can cause garbage messages or be detected (`violated`), never a wild access.
// The data is mapped twice in a row, so that a record is contiguous wherever it starts.
//
// A record: 8 bytes of header (length, zero), the message, padding to 64 bytes. Records start on a cache line, so that
// producer and consumer never write to the same one.
//
// `Platform` supplies atomics, fences and copies: NativePlatform, or in weak_memory_test.cc a model of weak memory.
#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "fabric/local/platform.h"

namespace verbena::fabric::local {

// Two cache lines apart: the prefetcher fetches lines in pairs.
inline constexpr size_t line_pair = 128;

template <class Platform>
struct BasicRingIndices {
  alignas(line_pair) typename Platform::template Atomic<uint64_t> head;  // bytes ever published; the producer's
  alignas(line_pair) typename Platform::template Atomic<uint64_t> tail;  // bytes ever consumed; the consumer's
};
using RingIndices = BasicRingIndices<NativePlatform>;
static_assert(std::atomic<uint64_t>::is_always_lock_free);

inline constexpr size_t record_alignment = 64;
inline constexpr size_t record_header_size = 8;
constexpr uint64_t record_size(uint64_t message_size) {
  return (message_size + record_header_size + record_alignment - 1) & ~uint64_t{record_alignment - 1};
}

// `data` is `capacity` bytes, mapped twice in a row. capacity is a power of two, a multiple of the page size.
template <class Platform>
struct BasicRingMemory {
  BasicRingIndices<Platform>* indices = nullptr;
  std::byte* data = nullptr;
  uint64_t capacity = 0;
  uint64_t message_size_max = 0;  // record_size(message_size_max) <= capacity
};

using RingMemory = BasicRingMemory<NativePlatform>;

template <class Platform>
class BasicProducer {
 public:
  enum class Push { ok, full, violated };

  explicit BasicProducer(const BasicRingMemory<Platform>& memory) : ring_(memory) {}

  // Appends one message, the two parts joined; 1 .. message_size_max bytes together (the caller checked).
  Push push(Bytes first, Bytes second) {
    const uint64_t size = first.size() + second.size();
    const uint64_t need = record_size(size);
    if (need > ring_.capacity - (head_ - tail_seen_)) {
      const uint64_t tail = ring_.indices->tail.load(std::memory_order_acquire);
      if (tail - tail_seen_ > head_ - tail_seen_) return Push::violated;  // backwards, or beyond the published index
      tail_seen_ = tail;
      if (need > ring_.capacity - (head_ - tail_seen_)) return Push::full;
    }
    std::byte* at = ring_.data + (head_ & (ring_.capacity - 1));
    const uint64_t header = size;
    Platform::write(at, reinterpret_cast<const std::byte*>(&header), sizeof header);
    if (!first.empty()) Platform::write(at + record_header_size, first.data(), first.size());
    if (!second.empty()) Platform::write(at + record_header_size + first.size(), second.data(), second.size());
    head_ += need;
    ring_.indices->head.store(head_, std::memory_order_release);
    return Push::ok;
  }

  // Whether a message of `size` bytes would fit now. Reads the shared index.
  bool fits(uint64_t size) const {
    const uint64_t used = head_ - ring_.indices->tail.load(std::memory_order_acquire);
    return used <= ring_.capacity && record_size(size) <= ring_.capacity - used;
  }

 private:
  BasicRingMemory<Platform> ring_;
  uint64_t head_ = 0;
  uint64_t tail_seen_ = 0;
};

using Producer = BasicProducer<NativePlatform>;

template <class Platform>
class BasicConsumer {
 public:
  enum class Pop { none, message, violated };

  explicit BasicConsumer(const BasicRingMemory<Platform>& memory) : ring_(memory) {}

  // Finds the next message. `view` points into the ring: a consumer that does not trust the producer copies it (its
  // length is a private copy already), then calls release().
  Pop peek(Bytes& view) {
    if (head_seen_ == tail_) {
      const uint64_t head = ring_.indices->head.load(std::memory_order_acquire);
      if (head == tail_) return Pop::none;
      const uint64_t available = head - tail_;
      if (available > ring_.capacity || available % record_alignment != 0) return Pop::violated;
      head_seen_ = head;
    }
    const std::byte* at = ring_.data + (tail_ & (ring_.capacity - 1));
    uint64_t header;
    Platform::read(reinterpret_cast<std::byte*>(&header), at, sizeof header);
    asm volatile("" : "+r"(header));  // one load: the value checked is the value used
    if (header == 0 || header > ring_.message_size_max || record_size(header) > head_seen_ - tail_)
      return Pop::violated;
    view = {at + record_header_size, static_cast<size_t>(header)};
    taken_ = record_size(header);
    return Pop::message;
  }
  // Returns the space of the message from peek() to the producer.
  void release() {
    tail_ += taken_;
    taken_ = 0;
    ring_.indices->tail.store(tail_, std::memory_order_release);
  }

  // Whether peek() would find something.
  bool pending() const { return head_seen_ != tail_ || ring_.indices->head.load(std::memory_order_acquire) != tail_; }

 private:
  BasicRingMemory<Platform> ring_;
  uint64_t tail_ = 0;
  uint64_t head_seen_ = 0;
  uint64_t taken_ = 0;
};
using Consumer = BasicConsumer<NativePlatform>;

}  // namespace verbena::fabric::local
