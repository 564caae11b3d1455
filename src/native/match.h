// MATCH being served: how many leading keys of each list exist and may be read. A key counts if a HEAD of it would
// succeed, by the checks of HEAD_MANY. Keys are looked at in groups: those in memory together and without a wait, the
// others by some coroutines at once. The first key that fails ends its list.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memory/arena.h"
#include "native/op.h"
#include "native/taken_lease.h"
#include "native/wire/match.h"
#include "s3/objects/hot_reads.h"

namespace verbena::native {

// Its arguments, copied out of the message.
struct MatchRequest {
  wire::Descriptor window;
  uint8_t details = 0, width = 0;
  uint32_t lease_ms = 0;
  uint64_t lease = 0;
  std::string prefix;
  std::vector<uint32_t> counts;
  std::vector<std::byte> keys;
};

// The keys of a request in their order, out of the message or piece by piece out of the client's window.
class MatchKeys {
 public:
  static constexpr size_t group_max = 16;

  Result<void> open(Op& op);
  // Reads what next() needs. Errors: the transfer.
  Task<Result<void>> fetch();
  // The next keys, at least one and at most `most`. Valid until the next call.
  std::span<const std::string> next(size_t most);
  void skip(size_t keys);

 private:
  static constexpr size_t piece_max = 64 * KiB;

  Op* op_ = nullptr;
  const MatchRequest* request_ = nullptr;
  std::unique_ptr<fabric::Window> window_;
  memory::Lease lease_;
  Bytes here_;                 // keys that were not returned yet
  uint64_t at_ = 0, end_ = 0;  // of the window: bytes behind `here_`
  std::array<std::string, group_max> keys_;
};

class Matching final : public std::enable_shared_from_this<Matching> {
 public:
  explicit Matching(OpPtr op);
  // Replies.
  static Task<void> serve(std::shared_ptr<Matching> self);

 private:
  static constexpr size_t turn_keys = 512;
  static constexpr std::chrono::milliseconds turn_time{1};

  // Of one key.
  struct Seen {
    Errc code = Errc::ok;
    wire::KeyPlace place = wire::KeyPlace::unknown;
    uint64_t size = 0;
    bool known = false;
    std::shared_ptr<store::ObjectReader> object{};  // for a lease
  };
  struct Running;

  Task<Result<void>> run();
  // False: the answer ends here.
  Task<Result<bool>> match_list(uint32_t count);
  Task<void> look(std::span<const std::string> keys);
  void look_in_memory(std::span<const std::string> keys);
  Task<void> look_up(const std::string& key, Seen& seen);
  static Task<void> look_up_aside(std::shared_ptr<Matching> self, const std::string& key, Seen& seen);
  Task<Result<void>> admit(size_t keys);
  Task<void> take_turn(size_t keys);
  bool is_late() const;
  bool still_allowed();
  // True: the key counts, and the list goes on.
  bool count(const std::string& key, Seen& seen);
  void account();
  Task<void> begin_lease();
  Task<void> open_for_lease(const std::string& key, Seen& seen);
  bool hold(const std::string& key, Seen& seen);

  OpPtr op_;
  MatchKeys keys_;
  s3::HotReads hot_;
  wire::MatchWriter out_;
  std::array<Seen, MatchKeys::group_max> seen_;
  Deadline until_;  // the end of the client's wait
  Deadline turn_until_;
  size_t in_turn_ = 0, looked_at_ = 0, counted_ = 0;
  TakenLease lease_;
  s3::BucketAccessPtr bucket_;  // for the lease
  bool full_ = false, admitted_ = false;
  size_t running_ = 0;
  boost::asio::steady_timer ended_;  // cancelled whenever a look-up ends
};

}  // namespace verbena::native
