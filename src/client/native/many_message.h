// One message of a batch in flight.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "client/native/many.h"
#include "client/native/stream.h"
#include "native/wire/batch.h"

namespace verbena::client {

// Of one message, through windows: answers come while other messages are in flight.
inline constexpr uint64_t message_bytes_max = 8 * MiB;

// The items that one stream has still to request, in order.
struct ManyQueue {
  NativeStream* stream = nullptr;
  std::deque<uint32_t> items;
  std::vector<uint64_t> device_numbers = {};         // of the call's devices, by window, on this stream
  size_t items_max = native::wire::batch_items_max;  // of one message
  uint64_t bytes_max = message_bytes_max;            // likewise, unless its first item is larger
  size_t in_flight = 0;
};

class ManyMessage final : public NativeCall {
 public:
  ManyMessage(ManyCall& call, ManyQueue& queue) : call_(call), queue_(queue) {}

  // Takes items off the queue, as many as a message and its answer hold. Under the stream's lock.
  Result<void> prepare(NativeStream::Body& body);
  Result<void> answered(Bytes body) override;

  // Called after the call is done. Items without an answer go back to the queue.
  Result<void> settle();
  // In place of settle(), for a call that is given up.
  void withdraw();
  // The items before `leading` are about to be reported, and their places to be the caller's again: takes checksums of
  // those whose answer is still to come.
  void note_told(size_t leading);
  ManyQueue& queue() { return queue_; }
  // Number of leading items that have arrived so far, where that was requested.
  size_t arrived() const;
  // Bytes of its items, and of those that have not arrived; 0 where that is not known.
  uint64_t bytes() const { return bytes_from(0); }
  uint64_t left() const { return tells_arrived() ? bytes_from(arrived()) : 0; }
  uint32_t item(size_t position) const { return items_[position]; }
  // Called after settle(): marks items that arrived without an answer.
  void forget_unanswered(std::vector<uint8_t>& here) const {
    for (size_t i = answered_; i < items_.size(); ++i) here[items_[i]] = 0;
  }

 private:
  bool tells_arrived() const;
  uint64_t bytes_from(size_t first) const;
  struct Window {
    uint64_t from = 0, to = 0;  // the range of the caller's window that the items use
    std::shared_ptr<MutableBytes> staged;
    uint8_t number = native::wire::no_window;  // in the message
  };
  struct Check {
    uint32_t item;
    Algorithm algorithm;
    std::string digest;
  };
  // Of a whole place, by the algorithms that objects have without being asked for one: which it is says the answer.
  struct EarlyDigests {
    uint32_t item;
    std::string crc32c, crc64nvme;
  };
  bool check(const Check& one) const;
  void release_blocks(bool reusable);
  bool is_get() const { return call_.type == native::wire::Type::get_many; }
  bool is_put() const { return call_.type == native::wire::Type::put_many; }
  bool in_message(const BatchItem& item) const;
  // True if the item's bytes have arrived before and only its result is needed.
  bool was_told(uint32_t index) const { return index < told_; }
  void choose(size_t room);
  Result<void> lend(NativeStream::Body& body, native::wire::BatchHead& head);
  Result<void> lend_progress(NativeStream::Body& body, native::wire::BatchHead& head);
  Result<void> encode(NativeStream::Body& body, const native::wire::BatchHead& head);
  Result<void> take_lease(uint64_t id);
  void note_unfinished();
  Result<void> take(uint32_t index, const native::wire::BatchEntry& entry, uint64_t staged_at);

  ManyCall& call_;
  ManyQueue& queue_;
  std::vector<uint32_t> items_;
  size_t told_ = 0;  // the call's `told` when this was written
  std::vector<std::string_view> buckets_;
  std::vector<uint8_t> bucket_numbers_;
  std::vector<uint64_t> staged_at_;
  std::vector<Window> windows_;
  std::vector<Check> checks_;
  std::vector<EarlyDigests> early_;  // in the order of items_
  size_t noted_ = 0;                 // of items_, by note_told()
  std::vector<StagingBlock> blocks_;
  StagingBlock progress_;
  size_t answered_ = 0;
  uint64_t joins_ = 0;  // a lease
};

}  // namespace verbena::client
