// PUT_MANY and DELETE_MANY in progress. Every item is a write with its own outcome; many are in progress at once, so
// that the store commits them together and they share one sync.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include <array>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "native/op.h"
#include "native/wire/batch.h"
#include "s3/objects/put_now.h"

namespace verbena::native {

class WriteBatch {
 public:
  // So long works a batch before other requests have their turn (a policy's cost is up to its author). Tests of the
  // other bounds of a turn make it longer.
  static inline std::chrono::nanoseconds turn_time = std::chrono::microseconds(500);
  // The minimal size of a reply's entry. A batch whose reply could not hold this for each item is refused before
  // anything is done, because each write that happened must be reported.
  static constexpr size_t entry_size_min = wire::batch_entry_size + 16 + 3;

  // Errors refuse the batch as a whole, before any of it was done. `op` must outlive the batch.
  Result<void> begin(Op& op, Bytes body);
  static void start(OpPtr op);
  void end();

 private:
  static constexpr size_t ahead_max = 256;  // writes in progress: as many as the store commits at once
  // Work before the batch yields.
  static constexpr size_t turn_items = 8;
  static constexpr uint64_t turn_bytes = 256 * KiB;

  struct Written {
    bool done = false;
    Errc code = Errc::ok;
    uint64_t size = 0;
    int64_t modified_us = 0;
    std::string etag, version;
  };
  using Shared = std::shared_ptr<OpPtr>;
  // A small item whose bytes are being fetched.
  struct Fetched {
    size_t index = 0;
    std::string_view bucket;  // of the head
    std::string key;
    wire::BatchPlace place;
    std::vector<store::Checksum> expected;
    s3::Headers headers;
  };
  // Items with adjacent places, fetched together: on a transport that does not copy at once a small transfer takes as
  // long as a large one.
  struct Run {
    std::vector<Fetched> items;
    uint8_t window = wire::no_window;
    uint64_t offset = 0;
    size_t size = 0;
  };

  static Task<void> dispatch(Shared shared);
  using CallerPtr = std::shared_ptr<const s3::Call>;
  static Task<void> write(Shared shared, CallerPtr caller, size_t index, s3::PutRequest request, Bytes inline_bytes,
                          wire::BatchPlace place);
  static Task<void> remove(Shared shared, CallerPtr caller, size_t index, std::string bucket, std::string key,
                           store::RemoveRequest request);
  bool may_begin() const;  // whether one more item may begin
  void begin_next(const Shared& shared);
  bool from_window() const;  // the item's bytes
  bool is_small() const;
  bool has_to_be_fetched() const;
  void join_run(const Shared& shared, size_t index);
  void fetch_run(const Shared& shared);
  static Task<void> fetch(Shared shared, Run run);
  std::optional<memory::Lease> copied(Bytes bytes) const;
  void write_fetched(const Shared& shared, Fetched& item, memory::Lease* fetched, bool more_follow);
  void write_alone(const Shared& shared, Fetched& item);
  std::optional<memory::Lease> lease_now(size_t size) const;
  std::optional<memory::Chunk> bytes_at_hand();
  s3::PutNowOutcome write_now(const Shared& shared, size_t index);
  s3::PutNowOutcome store_now(const Shared& shared, size_t index, s3::PutNow& put, uint64_t window_bytes);
  bool still_allowed();
  bool may_be_written() const;
  std::vector<store::Checksum> expected() const;
  s3::Headers headers() const;
  s3::PutRequest put_request() const;
  store::RemoveRequest remove_request() const;
  // The outcome of a PUT. `window_bytes`: read from its place; 0: it was inline.
  void stored(size_t index, Result<store::ObjectInfo> info, std::string_view bucket, std::string_view key,
              uint64_t window_bytes);
  void complete(size_t index, Written written, std::string_view bucket, std::string_view key);
  void tell(const Written& written);
  void finish();
  bool is_put() const;

  Op* op_ = nullptr;
  std::vector<std::byte> body_;
  std::optional<wire::BatchReader> reader_;
  wire::BatchItem item_;
  std::array<std::shared_ptr<fabric::Window>, wire::batch_windows_max> windows_;
  // The caller for new items. After a change of keys or policies there is a new one; items in progress keep theirs and
  // so notice the change (s3::may_have_changed).
  CallerPtr caller_;
  std::deque<Written> ahead_;  // from the first one without a reported outcome
  Run run_;                    // being gathered; empty: none
  std::optional<wire::Writer> out_;
  size_t taken_ = 0, told_ = 0, running_ = 0;
  std::optional<boost::asio::steady_timer> ended_;  // cancelled whenever a write ends
};

}  // namespace verbena::native
