// Queues of events (store/event.h) over the cluster. An event lies in the tablet of the key that it is about, written
// by the call that changes the key; what outlives its bucket or concerns no object lies in one object for all buckets.
// One server delivers those of all: the leader.
//
// The leader learns of new ones by hints: each server writes now and then, beside its changes, which buckets have some.
// A server that becomes the leader, or that sees a server go whose last hints may be missing, counts the events of all
// buckets. The leader reports its counts to the others, so that every server knows how full a queue is.
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
// In a tablet. With the size of its record, so that to count them no record need be read.
std::string event_row(std::string_view queue, uint64_t id, size_t size);

class EventRows {
 public:
  static constexpr std::chrono::milliseconds tell_every{500};

  // `rounds`: grows whenever a server may have gone without having told.
  EventRows(Registry& registry, boost::asio::io_context& io, const LeaderLease& leader,
            std::function<uint64_t()> rounds)
      : registry_(registry), timer_(io), leader_(leader), rounds_(std::move(rounds)) {}

  // A change that left one was made. Thread-safe.
  void left(const std::string& queue, uint64_t bucket);
  // Writes those that concern no object.
  Task<Result<void>> add(uint64_t bucket, std::vector<EventRow> events, std::vector<uint64_t> ids);
  // Rows of a bucket's tablet, which goes.
  Task<Result<void>> rescue(uint64_t bucket, std::map<std::string, std::string> rows);

  // Those with events, and maybe some that have none since they were counted last; sorted. As the leader the tablets
  // are looked at where others may have left some and gone, but not the first time, when a server starts; else what
  // the leader has reported, and what lies beside the tablets.
  Task<Result<std::vector<std::string>>> queues();
  // As the leader: as it is. Else as it was told. One at a time for each queue, as read() and remove().
  Task<Result<std::vector<EventBacklog>>> backlog(std::string queue);
  Task<Result<std::vector<QueuedEvent>>> read(std::string queue, uint64_t bucket, uint64_t after, size_t events_max,
                                              size_t bytes_max);
  Task<Result<void>> remove(std::string queue, uint64_t bucket, std::vector<uint64_t> ids);

  Task<> run();  // until stop()
  void stop();
  Task<> tell();  // what was left since the last time

 private:
  using Name = std::pair<std::string, uint64_t>;  // queue, bucket
  struct Amount {
    uint64_t events = 0, bytes = 0;
    std::set<std::string> objects{};  // that have some
  };
  // What is known of a queue by the leader.
  struct Known {
    uint64_t term = 0, rounds = 0;
    std::map<uint64_t, Amount> buckets{};
    std::map<uint64_t, std::string> told{};  // as the others know it
  };
  using Rows = std::map<std::string, std::string>;
  // Rows of the events' object that start so, in pages.
  Task<Result<Rows>> of_all(std::string prefix);
  Task<Result<std::vector<std::string>>> objects_of(uint64_t bucket);
  Task<Result<void>> names_in(std::string object, char letter, std::set<std::string>& names);
  Task<Result<void>> names_in_tablets(std::set<std::string>& names);
  Task<Result<std::set<uint64_t>>> all_buckets(std::string queue);
  Task<Result<Amount>> count(std::string queue, uint64_t bucket);
  Task<Result<void>> recount(std::string queue, Known& known);
  Task<Result<void>> publish(std::string queue, Known& known);
  // Keys only: those that start with `prefix`, from the one behind `after` on. False: there is no such object.
  Task<Result<bool>> page(std::string object, std::string prefix, std::string after, std::vector<std::string>& into,
                          bool& more);
  Task<Result<void>> change(Rows sets, std::set<std::string> gone);

  Registry& registry_;
  boost::asio::steady_timer timer_;
  const LeaderLease& leader_;
  const std::function<uint64_t()> rounds_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  std::set<Name> left_;          // guarded by mutex_
  std::set<std::string> named_;  // likewise: queues that the tablets had when they were last looked at
  uint64_t named_term_ = 0, named_rounds_ = 0;
  bool asked_before_ = false;
  std::map<std::string, Known> known_;  // likewise; an entry is of the one who asks for its queue
};

}  // namespace verbena::store::rados
