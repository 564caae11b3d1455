// A world's clients of the native door: the real client library, on the simulated fabric. They use the same buckets as
// the clients of the router, and the same oracle judges them.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "client/native/many.h"
#include "client/native/match.h"
#include "client/native/session.h"
#include "client/native/watch.h"
#include "simulator/fabric.h"
#include "simulator/lasting.h"
#include "simulator/native_server.h"
#include "simulator/register.h"
#include "simulator/world.h"

namespace verbena::simulator {

// A client's memory between guards. What nothing was written to keeps its pattern.
class Guarded {
 public:
  explicit Guarded(size_t size);
  MutableBytes bytes() { return MutableBytes(all_).subspan(guard, size_); }
  Bytes bytes() const { return Bytes(all_).subspan(guard, size_); }
  // Whether all but these [from, to), in order, is as it was.
  bool untouched_but(std::span<const std::pair<size_t, size_t>> written) const;
  bool untouched_behind(size_t length) const;

 private:
  static constexpr size_t guard = 64;
  static const std::vector<std::byte>& pattern();
  std::vector<std::byte> all_;
  size_t size_;
};

struct World::Native {
  explicit Native(World& world);
  ~Native();

  void begin(Loop& loop);  // makes its own bucket
  void crash();            // calls under way get no answer
  void clock_went_back(int64_t by_ns) { calls_.clock_went_back(by_ns); }
  // The server is open; no client works.
  void begin_round(Server& server);
  // No client works any more. Judges the watches; the door closes.
  void end_round(Loop& loop);
  // The calling thread is the client of that number: by the native door, or not.
  void enter(int number);
  // A verb by the native door. False: this thread's client calls the router.
  bool act(Loop& loop, Bucket& bucket, uint32_t key);
  // What the watches have to tell.
  void began(Operation& operation);
  void answered(const Bucket& bucket, const Operation& operation);
  void ended(const Operation& operation);

 private:
  using Error = verbena::Error;
  struct Slot {  // a session, of one thread or of several
    size_t host = 0;
    bool watches = false;
    std::shared_ptr<client::NativeSession> session{};
    uint64_t dials = 0, good = 0;
  };
  struct Attempt {
    Slot& slot;
    std::shared_ptr<client::NativeSession> session;
    uint64_t troubles, dials, good;
    bool broken;
  };
  struct Late {  // memory of a call that has failed: nothing lands there any more
    std::shared_ptr<Guarded> memory;
    std::vector<std::byte> was;
  };
  struct Watcher {
    Bucket* bucket = nullptr;
    Slot slot{};
    std::unique_ptr<client::NativeWatch> watch{};
    uint64_t since = 0;  // what began later must be told
    struct Told {
      uint8_t what;
      std::string etag;
    };
    std::map<uint32_t, Told> last{};                         // by key
    std::map<std::pair<uint32_t, uint32_t>, int> created{};  // by key and content
    std::vector<std::pair<uint64_t, Operation>> owed{};      // puts that were answered
    bool is_open() const { return watch != nullptr; }
  };

  // native.cc: sessions, what befalls them, errors
  client::NativeOptions options(Slot& slot);
  std::shared_ptr<client::NativeSession> session(Slot& slot);
  Result<net::HttpReply> ask(const net::HttpRequest& request, size_t host);
  std::shared_ptr<NativeServer> server();
  std::shared_ptr<NativeServer> make_server();
  void restarts();
  Attempt attempt(Slot& slot, std::shared_ptr<client::NativeSession> session) const;
  void succeeded(const Attempt& attempt);
  bool is_excused(const Attempt& attempt, const Error& error) const;
  void note_error(const Attempt& attempt, std::string_view what, const Error& error);
  void settle();
  void close_failed(Bucket& bucket, std::span<Operation* const> operations);
  void fail_write(const Attempt& attempt, Bucket& bucket, Operation& operation, const Error& error);
  void fail_read(const Attempt& attempt, Bucket& bucket, Operation& operation, const Error& error);
  Operation* ghost_of(const Attempt& attempt, Bucket& bucket, const Operation& operation);
  void keep_late(std::shared_ptr<Guarded> memory);
  void check_late();

  // native_verbs.cc
  void put(const Attempt& attempt, Bucket& bucket, uint32_t key);
  Result<client::NativeObject> call_put(const Attempt& attempt, const client::NativePut& request, bool once);
  Result<client::NativeObject> call_get(const Attempt& attempt, const client::NativeGet& request);
  void get(const Attempt& attempt, Bucket& bucket, uint32_t key);
  void head(const Attempt& attempt, Bucket& bucket, uint32_t key);
  void remove(const Attempt& attempt, Bucket& bucket, uint32_t key);
  void list(const Attempt& attempt, Bucket& bucket);
  void append(const Attempt& attempt, Loop& loop, Bucket& bucket, uint32_t key);
  void rename(const Attempt& attempt, Bucket& bucket, uint32_t key);
  bool read_bytes(Bucket& bucket, Bytes bytes, const std::string& etag, Operation& operation);

  // native_many.cc
  void get_many(const Attempt& attempt, Bucket& bucket);
  void head_many(const Attempt& attempt, Bucket& bucket);
  void put_many(const Attempt& attempt, Bucket& bucket);
  void remove_many(const Attempt& attempt, Bucket& bucket);
  Result<void> run(const Attempt& attempt, client::ManyCall& call, bool repeatable);
  std::vector<uint32_t> draw_keys(const Bucket& bucket, bool distinct);

  // native_match.cc: keys of hashes, in a bucket of their own
  static constexpr size_t blocks_count = 8;
  using Block = Register<Lasting>;
  using Readings = std::vector<Block::Reading>;
  struct Leased {  // what a lease holds of a key: one of these contents
    std::map<size_t, std::set<uint32_t>> blocks{};
    std::shared_ptr<client::NativeSession> session;
    uint64_t id = 0, dials = 0, troubles = 0;
    int64_t until_ns = 0;  // at least, of the steady clock
  };
  void act_on_blocks(const Attempt& attempt, Loop& loop);
  void put_blocks(const Attempt& attempt);
  void put_block(Loop& loop, size_t at);
  void remove_blocks(const Attempt& attempt, Loop& loop);
  void match(const Attempt& attempt);
  std::vector<size_t> draw_blocks();
  void judge_list(const Attempt& attempt, const std::vector<size_t>& blocks, const Readings& readings,
                  const client::NativeMatchedList& list, const LastingCall& call, Leased& leased);
  void judge_block(size_t at, Block::Reading reading, std::string_view seen,
                   const std::function<bool(const Lasting&)>& fits);
  void read_blocks(const Attempt& attempt, Leased& leased);
  bool holds(const Attempt& attempt, const Leased& leased) const;
  void judge_leased(const Attempt& attempt, Leased& leased, size_t at, Block::Reading reading,
                    const BatchResult& result, Bytes bytes, const LastingCall& call);
  void unsure_blocks(const std::vector<size_t>& blocks);

  // native_watch.cc
  void watch(Watcher& watcher);
  bool look(Watcher& watcher, int64_t for_ns);
  void tell(Watcher& watcher, const client::NativeNews& news);
  void judge(Watcher& watcher, Loop& loop);

  uint64_t draw(uint64_t below) const { return world_.draw(below); }

  World& world_;
  const bool blocks_used_;          // scene `blocks`
  static thread_local Slot* slot_;  // of the calling thread's client
  Fabric fabric_;
  std::deque<Slot> slots_;
  std::deque<Watcher> watchers_;
  std::deque<Late> late_;
  std::mutex mutex_;
  std::shared_ptr<NativeServer> server_;
  Server* below_ = nullptr;
  std::deque<std::thread> helpers_;
  std::atomic<bool> over_{false};        // the round
  std::map<uint32_t, Operation*> open_;  // puts under way, by their value
  bool restarts_ = false;
  std::array<Block, blocks_count> blocks_{};
  LastingCalls calls_;
};

}  // namespace verbena::simulator
