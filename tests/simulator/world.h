// A server's rooms from the S3 verbs down over the local engine, its clients, its background work and what befalls it.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "s3/service.h"
#include "simulator/disk.h"
#include "simulator/history.h"
#include "store/local/local_store.h"

namespace verbena::simulator {

struct Plan {
  uint64_t seed = 1;
  uint64_t operations = 2000;
  int clients = 6;
};

class World {
 public:
  explicit World(Plan plan);
  ~World();
  // False: the store has lied, or has not come back; failure() says how.
  bool run();
  const std::string& failure() const { return failure_; }
  uint64_t operations() const { return clock_; }
  uint64_t crashes() const { return crashes_; }

 private:
  struct Server;  // from one start to the next crash
  struct Key {
    std::string bucket, name;
    History history;
  };
  enum class End : uint8_t { orderly, crash, no_space };

  bool round();
  bool open(bool make_buckets);
  bool check_disk();
  bool check_usage();
  bool read_all();
  void client(boost::asio::io_context& loop);
  void lifecycle(boost::asio::io_context& loop);
  void act(boost::asio::io_context& loop);
  void put(boost::asio::io_context& loop, Key& key, bool if_absent);
  void remove(boost::asio::io_context& loop, Key& key);
  void remove_version(boost::asio::io_context& loop, Key& key);
  void get(boost::asio::io_context& loop, Key& key);
  void list(boost::asio::io_context& loop, const std::string& bucket);
  void list_versions(boost::asio::io_context& loop);
  bool is_whole(const store::ObjectInfo& info, const std::string& bytes) const;

  Operation& begin(Key& key, Operation operation);
  void answer(Key& key, Operation& operation, Errc error);
  void answer(Key& key, Operation& operation);
  void fail_with(std::string why);
  uint64_t draw(uint64_t below);

  const Plan plan_;
  store::local::FaultyFileSystem faulty_;
  Disk disk_{faulty_};
  std::unique_ptr<Server> server_;
  std::deque<Key> keys_;
  std::map<std::string, uint32_t> values_;                // by ETag
  std::map<uint32_t, std::pair<Key*, std::string>> ids_;  // versions that were made, by value
  uint32_t last_value_ = 0;
  uint64_t order_ = 0, clock_ = 0, until_ = 0, crashes_ = 0;
  bool stop_ = false;
  std::atomic<bool> stop_lifecycle_{false};
  std::string failure_;
};

}  // namespace verbena::simulator
