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

#include "native/match_keys.h"
#include "native/op.h"
#include "native/taken_lease.h"
#include "native/wire/match.h"
#include "s3/objects/hot_reads.h"

namespace verbena::native {

class Matching final : public std::enable_shared_from_this<Matching> {
 public:
  explicit Matching(OpPtr op);
  // Replies.
  static Task<void> serve(std::shared_ptr<Matching> self);

 private:
  static constexpr size_t together = 16;      // keys that are held, or being looked up, at once
  static constexpr size_t turn_keys = 512;    // looked up one by one
  static constexpr size_t glances_a_key = 8;  // count as one of these
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
  // Counts the leading ones of these that lie in memory, all looked up by one call that holds none of them.
  size_t count_at_a_glance(MatchKeys::Some keys);
  // Counts keys until the answer is full, or one does not count (end_).
  Task<void> count_each(MatchKeys::Some keys);
  Task<void> look(MatchKeys::Some keys);
  void look_in_memory(MatchKeys::Some keys);
  Task<void> look_up(std::string_view key, Seen& seen);
  static Task<void> look_up_aside(std::shared_ptr<Matching> self, std::string_view key, Seen& seen);
  Task<Result<void>> admit(size_t keys);
  bool is_turn_over() const;
  Task<void> take_turn();
  bool is_late() const;
  bool still_allowed();
  // True: the key counts, and the list goes on.
  bool count(std::string_view key, Seen& seen);
  void account();
  Task<void> begin_lease();
  Task<void> open_for_lease(std::string_view key, Seen& seen);
  bool hold(std::string_view key, Seen& seen);

  OpPtr op_;
  MatchKeys keys_;
  s3::HotReads hot_;
  wire::MatchWriter out_;
  std::array<Seen, together> seen_;
  Deadline until_;  // the end of the client's wait
  Deadline turn_until_;
  size_t in_turn_ = 0, looked_at_ = 0, counted_ = 0;
  TakenLease lease_;
  s3::BucketAccessPtr bucket_;  // for the lease
  bool full_ = false, admitted_ = false;
  Errc end_ = Errc::ok;  // why the list ends
  size_t running_ = 0;
  boost::asio::steady_timer ended_;  // cancelled whenever a look-up ends
};

}  // namespace verbena::native
