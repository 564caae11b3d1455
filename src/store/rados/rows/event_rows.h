// Queues of events (store/event.h) over the cluster. An event is stored in its key's tablet, written by the call that
// changes the key; events that outlive their bucket, or concern no object, are in one object for all buckets. One
// server delivers all events: the leader.
//
// The leader learns of new events by hints: each server writes from time to time which buckets have some. A new leader
// counts the events of all buckets, and so does the leader when a server is gone whose last hints may be missing. The
// leader reports its counts to the others, so that every server knows how full a queue is.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/rados/members/leader_lease.h"
#include "store/rados/rows/registry.h"
#include "store/store.h"

namespace verbena::store::rados {

std::string event_prefix(std::string_view queue);
// The row's key in a tablet. It contains the record's size, so that counting reads no records.
std::string event_row(std::string_view queue, uint64_t id, size_t size);

class EventRows {
 public:
  static constexpr std::chrono::milliseconds tell_every{500};

  // `rounds`: grows whenever a server may be gone without having written its hints.
  EventRows(Registry& registry, boost::asio::io_context& io, const LeaderLease& leader,
            std::function<uint64_t()> rounds)
      : registry_(registry), timer_(io), leader_(leader), rounds_(std::move(rounds)) {}

  // Call after a change that left an event. Thread-safe.
  void left(const std::string& queue, uint64_t bucket);
  // Writes events that concern no object.
  Task<Result<void>> add(uint64_t bucket, std::vector<EventRow> events, std::vector<uint64_t> ids);
  // Moves the events of a bucket's tablet that is being removed.
  Task<Result<void>> rescue(uint64_t bucket, std::map<std::string, std::string> rows);

  // The queues with events, and perhaps some that were emptied since the last count; sorted. The leader reads the
  // tablets if servers may be gone without hints, except at the first call, when a server starts; other servers return
  // the leader's report, and the events outside of tablets.
  Task<Result<std::vector<std::string>>> queues();
  // On the leader exact, on others as last reported. One call at a time for each queue, as for read() and remove().
  Task<Result<std::vector<EventBacklog>>> backlog(std::string queue);
  Task<Result<std::vector<QueuedEvent>>> read(std::string queue, uint64_t bucket, uint64_t after, size_t events_max,
                                              size_t bytes_max);
  Task<Result<void>> remove(std::string queue, uint64_t bucket, std::vector<uint64_t> ids);

  Task<> run();  // until stop()
  void stop();
  Task<> tell();  // writes hints for events since the last call

 private:
  using Name = std::pair<std::string, uint64_t>;  // queue, bucket
  struct Amount {
    uint64_t events = 0, bytes = 0;
    std::set<std::string> objects{};  // that have events
  };
  // The leader's state of a queue.
  struct Known {
    uint64_t term = 0, rounds = 0;
    std::map<uint64_t, Amount> buckets{};
    std::map<uint64_t, std::string> told{};  // the rows of the last report; empty: one that may be there, or not
  };
  using Rows = std::map<std::string, std::string>;
  // The rows of the events' object with this prefix, in pages.
  Task<Result<Rows>> of_all(std::string prefix);
  Task<Result<std::vector<std::string>>> objects_of(uint64_t bucket);
  Task<Result<void>> names_in(std::string object, char letter, std::set<std::string>& names);
  Task<Result<void>> names_in_tablets(std::set<std::string>& names);
  Task<Result<std::set<uint64_t>>> all_buckets(std::string queue);
  Task<Result<Amount>> count(std::string queue, uint64_t bucket);
  // Both: false if the leader's term `term` has ended meanwhile.
  Task<Result<bool>> recount(std::string queue, Known& known, uint64_t term);
  Task<Result<bool>> recount_these(std::string queue, Known& known, std::set<uint64_t>& buckets, uint64_t term);
  Task<Result<std::vector<EventBacklog>>> as_told(std::string queue);
  Task<Result<void>> publish(std::string queue, Known& known);
  // Reads a page of keys with `prefix`, after `after`; none where the object does not exist. Whether more follow.
  Task<Result<bool>> page(std::string object, std::string prefix, std::string after, std::vector<std::string>& into);
  Task<Result<void>> change(Rows sets, std::set<std::string> gone);

  Registry& registry_;
  boost::asio::steady_timer timer_;
  const LeaderLease& leader_;
  const std::function<uint64_t()> rounds_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::set<Name> left_;          // guarded by mutex_
  std::set<std::string> named_;  // likewise: queues found in the tablets at the last reading
  uint64_t named_term_ = 0, named_rounds_ = 0;
  bool asked_before_ = false;
  std::map<std::string, Known> known_;  // likewise; an entry is used by the caller for its queue
};

}  // namespace verbena::store::rados
