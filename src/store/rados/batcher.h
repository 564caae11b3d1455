// Changes of a tablet's keys, many in one call: the cluster makes one change of an object after the other, and one of
// a hundred keys costs little more than one of a single key. While a call is under way, those that come collect.
#pragma once

#include <boost/asio/io_context.hpp>

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "store/rados/cluster.h"

namespace verbena::store::rados {

// One key's change. Nothing of it happens unless the guard is as it was seen (empty: absent).
struct Part {
  std::string guard_row, guard_seen;
  std::map<std::string, std::string> sets;
  std::set<std::string> gone;
  size_t bytes = 0;
};

class Batcher {
 public:
  // `io`: runs as long as anybody waits.
  Batcher(Cluster& cluster, boost::asio::io_context& io) : cluster_(cluster), io_(io) {}

  struct Outcome {
    int code = 0;  // as Cluster::write()'s; -ECANCELED: a guard or the epoch is another one, be it of another key
    bool unsure = false;  // with a failure: an attempt before was not answered, and may have happened
  };
  // At most one change of a key at a time. `alone`: not with others, whose guards may fail.
  Task<Outcome> commit(std::string tablet, std::string epoch, Part part, bool alone);

 private:
  struct Waiting {
    std::string epoch;
    Part part;
    bool alone;
    std::function<void(Outcome)> done;
  };
  void add(const std::string& tablet, Waiting waiting);
  std::vector<Waiting> take(const std::string& tablet);
  Task<> drain(std::string tablet);
  Task<Outcome> send(std::string tablet, const std::vector<Waiting>& batch);

  Cluster& cluster_;
  boost::asio::io_context& io_;
  std::mutex mutex_;
  std::map<std::string, std::deque<Waiting>> queues_;  // guarded by mutex_; a queue that is there is being drained
};

}  // namespace verbena::store::rados
