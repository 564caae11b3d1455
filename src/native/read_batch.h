// GET_MANY, HEAD_MANY and the values of LIST_VALUES being served. Items are taken in order (item_source.h) and answered
// in order (ordered_reply.h). Objects in memory are answered as they are met, without a coroutine or an allocation; for
// the others up to workers_max coroutines run ahead, and their answers wait for those ahead of them. So the memory of a
// batch does not depend on its number of items.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>

#include "native/item_delivery.h"
#include "native/item_source.h"
#include "native/op.h"
#include "native/ordered_reply.h"
#include "native/taken_lease.h"
#include "s3/objects/hot_reads.h"

namespace verbena::native {

class ReadBatch {
 public:
  // So long works a batch before other requests have their turn (a policy's cost is up to its author). Tests of the
  // other bounds of a turn make it longer.
  static inline std::chrono::nanoseconds turn_time = std::chrono::milliseconds(1);
  // Errors refuse the batch as a whole, before any item is served. `op` outlives the batch.
  Result<void> begin(Op& op, Bytes body);
  // The values of what was listed, each right behind the previous one.
  Result<void> begin_listing(Op& op, std::shared_ptr<const store::ListedObjects> listed, bool truncated);
  // Serves what needs no wait. True: the batch is done, and the reply is ready. False: start() is the next call.
  bool serve_at_once();
  // Goes on in coroutines; the last of them replies.
  static void start(OpPtr op);
  // Releases windows and objects, and leaves the lease of a batch that was not served. While `op` has its stream.
  void end();

 private:
  static constexpr size_t workers_max = 16;  // of one batch; several batches together are as deep as disks like it
  // Of a batch in order, those that wait for the transport with objects from memory: what they queue there goes ahead
  // of the leading items' bytes, or shares the connection with them.
  static constexpr size_t writers_in_order = 2;
  // A turn ends after so many bytes or items, or after turn_time.
  static constexpr uint64_t turn_bytes = 256 * KiB;
  static constexpr size_t turn_items = 256;
  static constexpr uint64_t progress_bytes = 64 * KiB;  // between two writes of the progress word

  // What advance() stopped for: the end, the turn of other requests, an item that has to wait, a run to be written.
  enum class Step : uint8_t { over, turn, wait, flush };
  // Of one item: answered or gathered in a run, or left to a coroutine.
  enum class Served : uint8_t { now, waits };
  using Shared = std::shared_ptr<OpPtr>;
  using Found = std::span<const store::Store::HotLookup>;

  void reset(Op& op);

  // Turns.
  Step advance(size_t& index);
  bool may_take() const;
  bool has_had_its_turn();
  void begin_turn() { moved_ = looked_at_ = 0; }
  bool still_allowed();

  // Items that need no wait.
  Served serve_now(size_t index);
  Served look_now(size_t index);
  Served deliver_now(size_t index);
  Served refuse(size_t index, Errc code);
  Served complete(size_t index);
  bool goes_in_reply(const wire::BatchPlace& place, uint64_t length) const;
  bool has_workers() const { return !shared_.expired(); }  // else a gathered run would not be written

  // Groups of plain items.
  bool may_serve_group() const;
  size_t serve_group();
  size_t answer_together(Found found, std::span<const ItemSource::Plain> items);
  bool append(ItemDelivery::Together& writes, OrderedReply::Answered& all, const store::ObjectReader& object,
              const wire::BatchPlace& place);

  // Leases (read_batch_leases.cc).
  Result<void> read_leases(Bytes& body);
  Leases::Found held(const s3::GetRequest& request) const;
  Served serve_leased_now(size_t index);
  Task<Result<s3::OpenObject>> open_leased(const s3::GetRequest& request);
  Task<Result<s3::OpenObject>> open_held(const s3::GetRequest& request, Leases::Found version);
  Task<Result<s3::OpenObject>> open_to_hold(const s3::GetRequest& request);

  // Workers, and what they wait for.
  static Task<void> work(Shared shared, std::optional<size_t> first, bool helps);
  void help(const Shared& shared);
  bool may_help() const;
  static void leave(Shared& shared);
  Task<Result<void>> serve(ReadSlot& slot);
  void complete_waiting(size_t index, const Result<void>& served);
  Task<void> write_run(const ItemDelivery::Run& run);
  bool gather(size_t index);
  void finish();

  // Progress.
  void publish_progress(bool all);
  Task<void> write_progress(Shared shared);

  Op* op_ = nullptr;
  ItemSource source_;
  OrderedReply reply_;
  ItemDelivery delivery_;
  std::array<s3::HotReads, wire::batch_buckets_max> hot_;
  uint64_t lease_ = 0;    // whose objects are read before others; 0: none
  wire::LeaseWish wish_;  // of a lease of what is found
  TakenLease taken_;
  bool leased_ = false;  // one of them
  bool late_ = false;    // the client has stopped waiting: items left are not begun
  Deadline until_;       // the end of the client's wait
  size_t running_ = 0;
  size_t writing_ = 0;  // of those, in write_run() or with an object from memory
  uint64_t moved_ = 0;  // in this turn
  size_t looked_at_ = 0;
  uint64_t turn_began_ = 0;  // ticks()
  std::weak_ptr<OpPtr> shared_;
  uint64_t published_ = 0, published_bytes_ = 0;
  bool publishing_ = false;
};

}  // namespace verbena::native
