// GET_MANY, HEAD_MANY and the values of LIST_VALUES being served. Items are taken in order. What lies in memory is
// answered as it is met, without a coroutine and without memory of its own; for the others up to workers_max coroutines
// run ahead, and their answers wait until those before them are written: so the memory of a batch does not depend on
// how many items it has.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "memory/arena.h"
#include "native/op.h"
#include "native/wire/batch.h"
#include "native/wire/list_values.h"
#include "s3/objects/hot_reads.h"

namespace verbena::native {

class ReadBatch {
 public:
  // Errors refuse the batch as a whole, before any of it was done. `op` must outlive the batch.
  Result<void> begin(Op& op, Bytes body);
  // What was listed, each value right behind the one before it.
  Result<void> begin_listing(Op& op, store::ListPage page);
  // Serves what can be served at once. True: that was all, and the reply is ready. False: start() goes on.
  bool serve_at_once();
  // Goes on in coroutines; the last of them replies.
  static void start(OpPtr op);
  // Lets go of what belongs to the request.
  void end();

 private:
  static constexpr size_t workers_max = 16;  // of one batch; several together are as deep as disks like it
  static constexpr size_t ahead_max = 64;    // items whose answers wait for one before them
  // Moved, or looked at, before others have a turn.
  static constexpr uint64_t turn_bytes = 256 * KiB;
  static constexpr size_t turn_items = 256;
  static constexpr std::chrono::milliseconds turn_time{1};  // evaluating an item's policy may take long
  static constexpr uint64_t progress_bytes = 64 * KiB;      // between two tellings of the progress

  struct Slot {
    s3::GetRequest request;  // not of a plain item
    size_t bucket = 0;       // its place in the head
    wire::BatchPlace place;
    std::optional<s3::OpenObject> opened;
    store::ObjectInfo info;  // of a HEAD of what is not in memory
    Errc code = Errc::ok;
    bool done = false, partial = false, in_reply = false;
    bool listed_alone = false;  // and `info` is what the listing said
    bool charged = false;       // rates were, by who sent the bytes
    uint64_t length = 0;
    std::vector<std::byte> bytes;  // of the reply, while it waits
  };
  // Small items whose places lie side by side, gathered for one write: a transport that does not copy at once takes as
  // long for a few KiB as for many.
  struct Run {
    memory::Lease lease;
    uint8_t window = wire::no_window;
    uint64_t offset = 0;
    size_t size = 0;
    std::array<size_t, ahead_max> items;
    size_t count = 0;
  };
  struct Listing {
    store::ListPage page;
    size_t next = 0;
    uint64_t used = 0;  // of the window
    wire::ValueWriter out;
  };
  enum class Step { over, turn, wait, flush };
  using Shared = std::shared_ptr<OpPtr>;
  // Plain items that were read from the message together. Those from `next` on are yet to be served.
  struct Group {
    static constexpr size_t most = fabric::Window::writes_max;
    struct Member {
      uint8_t fields = 0, bucket = 0;
      std::string_view key;
      wire::BatchPlace place;
    };
    std::array<Member, most> members;
    std::array<char, 2048> keys;  // of the members, one behind the other
    size_t next = 0, end = 0, keys_size = 0;
  };
  // Items of a group whose bytes go out by one call, or that have none. Their answers are written already.
  struct Together {
    size_t before = 0;  // what of the reply was there before them
    size_t count = 0;   // of items
    std::array<fabric::Window::Write, Group::most> writes;
    size_t writes_count = 0;
    fabric::Window* window = nullptr;
    uint64_t size = 0, size_max = 0;  // of the writes
    uint64_t in_reply = 0;            // bytes
  };

  Step advance(size_t& index);
  void reset(Op& op, size_t reply_head_size);
  Result<void> open_windows();
  size_t left() const;
  void clear(Slot& slot);
  void take(size_t index);
  bool may_be_plain() const;
  bool is_plain(const wire::BatchItem& item) const;
  void next_item();
  bool may_take_group() const;
  void take_group();
  void serve_group();
  using Found = std::span<const store::Store::HotLookup>;
  size_t tell_together(Found found);
  bool add(Together& all, const store::ObjectReader& object, const wire::BatchPlace& place);
  bool add_write(Together& all, Bytes bytes, const wire::BatchPlace& place);
  bool encode_plain(const store::ObjectInfo& info, bool in_reply);
  bool put_in_reply(const store::ObjectReader& object);
  void count_told(size_t items, uint64_t bytes);
  std::optional<bool> serve_plain(size_t index);
  bool tell_plain(const store::ObjectReader& object, size_t bucket, const wire::BatchPlace& place);
  bool write_plain(const store::ObjectReader& object, const wire::BatchPlace& place, bool in_reply);
  void take_listed(Slot& slot);
  bool wants_value(const store::ObjectInfo& info) const;
  bool serve_now(size_t index);
  bool deliver_now(size_t index);
  Result<bool> write_now(const store::ObjectReader& object, uint64_t offset, uint64_t length,
                         const wire::BatchPlace& place);
  bool gather(size_t index);
  Task<void> write_run(Run& run);
  bool wants_reply(const wire::BatchPlace& place, uint64_t length) const;
  bool may_take() const;
  bool has_had_its_turn();
  bool still_allowed();
  Task<Result<void>> serve(Slot& slot);
  Task<Result<void>> deliver(Slot& slot);
  void complete(size_t index);
  bool tell(Slot& slot, bool first);
  bool write_entry(const Slot& slot, const wire::BatchEntry& entry);
  void told(Slot& slot);
  void finish();

  void account();
  std::string_view bucket_name(size_t bucket) const {
    return listing_ ? std::string_view(op_->bucket) : head_.buckets[bucket];
  }
  void tell_progress(bool all);
  Task<void> write_progress(Shared shared);
  static Task<void> work(Shared shared, std::optional<size_t> first, bool helps);
  void help(const Shared& shared);
  static void leave(Shared& shared);

  Slot& slot(size_t index) { return slots_[index % ahead_max]; }
  bool is_get() const;

  Op* op_ = nullptr;
  std::vector<std::byte> body_;              // of the message; items point into it
  std::optional<wire::BatchReader> reader_;  // of the items; or a listing is their source
  std::optional<Listing> listing_;
  wire::BatchHead head_;
  wire::BatchItem item_, ahead_;
  bool has_ahead_ = false;  // read, and comes after the group
  Group group_;
  std::array<s3::HotReads, wire::batch_buckets_max> hot_;
  std::array<std::shared_ptr<fabric::Window>, wire::batch_windows_max> windows_;
  std::array<Slot, ahead_max> slots_;
  std::optional<wire::Writer> out_;
  std::optional<Run> run_;  // being gathered
  bool full_ = false;       // the reply holds no more: what is left is not answered
  bool late_ = false;       // nobody waits any more: what is left is not begun
  Deadline until_;          // the end of the client's wait
  size_t taken_ = 0, told_ = 0;
  uint64_t waiting_bytes_ = 0;  // of the reply, in slots
  size_t running_ = 0;
  uint64_t moved_ = 0;  // since the last turn
  size_t looked_at_ = 0;
  uint64_t turn_began_ = 0;  // ticks()
  std::weak_ptr<OpPtr> shared_;
  // How many leading items have arrived, up to the first that failed.
  uint64_t arrived_ = 0, published_ = 0, arrived_bytes_ = 0;
  bool failed_ = false, publishing_ = false;
  uint64_t inline_bytes_ = 0, window_bytes_ = 0;  // for the counters
  // Answers of each bucket that wait for account(): those that no log is told of.
  struct Traffic {
    uint64_t requests = 0, bytes = 0;
  };
  std::array<Traffic, wire::batch_buckets_max> traffic_;
};

}  // namespace verbena::native
