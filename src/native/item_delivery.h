// Moves the bytes of a read batch's items to their places in the client's windows: within the call where the transport
// copies, gathered with their neighbours where it does not, or in a coroutine where the bytes have to be fetched.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "memory/arena.h"
#include "native/item_source.h"
#include "native/op.h"
#include "native/ordered_reply.h"
#include "native/read_slot.h"

namespace verbena::native {

class ItemDelivery {
 public:
  // Small items whose places lie side by side, gathered for one write: a transport that does not copy takes as long for
  // a few KiB as for many.
  struct Run {
    memory::Lease lease;
    uint8_t window = wire::no_window;
    uint64_t offset = 0;
    size_t size = 0;
    std::array<size_t, OrderedReply::slots_max> items;  // their indices
    size_t count = 0;
    std::span<const size_t> indices() const { return std::span(items).first(count); }
  };
  // Writes into one window that are handed to the transport by one call.
  class Together {
   public:
    explicit Together(ItemDelivery& delivery) : delivery_(delivery) {}
    // The whole of an object. False: it is not in one piece, or cannot go with the writes added before.
    bool add(const store::ObjectReader& object, const wire::BatchPlace& place);
    uint64_t bytes() const { return bytes_; }
    // True also where there is nothing to write.
    bool write() { return count_ == 0 || window_->write_all_now(std::span(writes_).first(count_)).has_value(); }

   private:
    ItemDelivery& delivery_;
    fabric::Window* window_ = nullptr;
    std::array<fabric::Window::Write, ItemSource::group_max> writes_;
    size_t count_ = 0;
    uint64_t bytes_ = 0, bytes_max_ = 0;
  };

  Result<void> open(Op& op, const wire::BatchHead& head);
  void close();

  fabric::Window& window(size_t index) { return *windows_[index]; }
  // Whether the transport copies into the first window within the call.
  bool writes_at_once() const { return windows_[0]->immediate_size_max() != 0; }

  // would_block: the transport does not copy that much within the call, or its queue is full. What was written then is
  // written again.
  Result<void> write_now(const s3::OpenObject& object, const wire::BatchPlace& place);

  // Copies a small object in memory behind those of the run. False: it cannot join it, and the run has to be written
  // first, or the object goes by itself.
  bool gather(size_t index, const ReadSlot& slot);
  bool has_run() const { return run_.has_value(); }
  Run take_run();
  Task<Result<void>> write(const Run& run);

  // Sends what was opened, reading it ahead from the store where it is not in memory.
  Task<Result<void>> send_to_reply(ReadSlot& slot, MutableBytes to);
  Task<Result<void>> send_to_window(ReadSlot& slot);

 private:
  bool begin_run(const ReadSlot& slot);

  Op* op_ = nullptr;
  std::array<std::shared_ptr<fabric::Window>, wire::batch_windows_max> windows_;
  std::optional<Run> run_;  // being gathered
};

}  // namespace verbena::native
