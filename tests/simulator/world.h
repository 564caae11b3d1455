// A server's rooms from the S3 verbs down over an engine, its clients, its background work and what befalls it.
#pragma once

#include <boost/asio/io_context.hpp>

#include <atomic>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "auth/keyring.h"
#include "s3/service.h"
#include "simulator/engine.h"
#include "simulator/history.h"
#include "simulator/plan.h"

namespace verbena::simulator {

class Scene;

class World {
 public:
  using Loop = boost::asio::io_context;
  struct Server;  // from one start to the next crash
  struct Reply;
  World(Plan plan, std::unique_ptr<Engine> engine);
  ~World();
  // False: the store has lied, or has not come back; failure() says how.
  bool run();
  const std::string& failure() const { return failure_; }
  uint64_t operations() const { return clock_; }
  uint64_t crashes() const { return crashes_; }

 private:
  struct Native;  // clients of the native door
  friend class Scene;
  struct Bucket {
    Bucket(std::string name, BucketKind kind, bool locks, const Values& values, int64_t day_ns);
    const std::string name;
    const BucketKind kind;
    const bool locks;  // object lock
    bool sets_rules = false;
    int unsettled = 0;  // operations that failed and may still happen
    RuleBook book;
    History history;
    struct Known {
      uint32_t key, value, content;
      std::string id;
    };
    std::vector<Known> versions{};         // the last that were made
    std::map<std::string, Known> named{};  // all that were acknowledged, by id
    std::vector<uint32_t> last{};          // by key: a content that it had
    std::set<std::string> ended{};         // uploads that were completed or aborted

    bool versioned() const { return kind == BucketKind::versioned; }
    void know(uint32_t key, uint32_t value, uint32_t content, const std::string& id);
  };
  struct Upload {
    Bucket& bucket;
    uint32_t key;
    std::string id;
    int64_t begun_ns;
    bool busy = true;                               // a client works on it
    std::vector<std::pair<int, uint32_t>> parts{};  // numbers and values
    uint32_t may_be = 0;                            // a version that a completion without an answer may have made
  };

  // world.cc: rounds, and what is looked at between them
  bool round();
  bool open();
  bool open_one(size_t at);
  void begin_lifecycle(Server& server);
  void close(std::unique_ptr<Server>& server);
  bool make_buckets(Loop& loop);
  bool check_usage();
  std::string usage_difference(Loop& loop, const Bucket& bucket);
  void check_unhurt();  // what the damage has not hit
  bool read_all();
  void last_act();         // damage: what is read is right, or an error
  void decay();            // damage while a server runs
  void work(int clients);  // until_ so many operations
  void forget_calls();     // that are under way: the servers are gone
  void note_doubts();
  void disturb();  // the process stands still, or the wall clock jumps
  void client(Server& server, Loop& loop);
  void passes(Server& server, Loop& loop);
  void enter(Server& server);  // the calling thread
  void act(Loop& loop);
  void act_on(Loop& loop, Bucket& bucket, uint32_t key);
  bool may_act(const Bucket& bucket);

  // storms.cc
  struct Storm {
    Bucket* bucket = nullptr;
    uint32_t key = 0;
    uint64_t until = 0;  // by clock_
  };
  // It ends when a call fails that may still happen: its bucket would fill with others, and no client would go on.
  bool in_storm() const { return clock_ < storm_.until && storm_.bucket->unsettled == 0; }
  void begin_storm();
  void rest();
  void act_in_storm(Loop& loop, Bucket& bucket);

  // verbs.cc
  void put(Loop& loop, Bucket& bucket, uint32_t key);
  void copy(Loop& loop, Bucket& bucket, uint32_t key);
  void copy_version(Loop& loop, Bucket& bucket, uint32_t key);
  void remove(Loop& loop, Bucket& bucket, uint32_t key);
  void remove_version(Loop& loop, Bucket& bucket);
  void set_tag(Loop& loop, Bucket& bucket, uint32_t key);
  void set_hold(Loop& loop, Bucket& bucket);
  void set_lock(Loop& loop, Bucket& bucket);
  void append(Loop& loop, Bucket& bucket, uint32_t key);
  void rename(Loop& loop, Bucket& bucket, uint32_t key);
  Version draw_properties(const Bucket& bucket);

  // reads.cc
  void get(Loop& loop, Bucket& bucket, uint32_t key);
  s3::GetRequest draw_get(const Bucket& bucket, uint32_t key);
  void judge_part(const Bucket& bucket, const s3::GetRequest& request, const std::string& etag,
                  const std::string& bytes, Operation& operation);
  void read_tag(Loop& loop, Bucket& bucket, uint32_t key);
  void read_version(Loop& loop, Bucket& bucket);
  void read_version_body(Loop& loop, Bucket& bucket, const Bucket::Known& known);
  void list(Loop& loop, Bucket& bucket);
  store::ListRequest draw_listing(const Model& model);
  bool list_page(Loop& loop, Bucket& bucket, store::ListRequest& request);
  void list_keys(Loop& loop, Bucket& bucket);
  void list_versions(Loop& loop, Bucket& bucket);
  void judge_page(const Bucket& bucket, const store::ListRequest& request, const store::ListPage& page);
  void judge_page(const Bucket& bucket, const store::VersionPage& page);
  // Whether these are an object's bytes, and those that its tag names: which values.
  bool recognize(const Bucket& bucket, std::string_view bytes, const std::string& etag,
                 std::vector<uint32_t>& seen) const;

  // uploads.cc
  void act_on_upload(Loop& loop, Bucket& bucket, uint32_t key);
  void begin_upload(Loop& loop, Bucket& bucket, uint32_t key);
  void put_part(Loop& loop, Upload& upload);
  std::vector<Values::Part> draw_parts(const Upload& upload);
  void complete(Loop& loop, Upload& upload);
  void abort(Loop& loop, Upload& upload);
  void list_parts(Loop& loop, Upload& upload);
  void list_uploads(Loop& loop, Bucket& bucket);
  void ask_after(Loop& loop, Upload upload);
  bool is_gone(Upload& upload, const Reply& reply);  // and may be

  // lifecycle.cc
  void set_rules(Loop& loop, Bucket& bucket);
  bool check_lifecycle();  // what must have gone has
  void check_versions(const Bucket& bucket, const std::vector<store::VersionEntry>& listed,
                      const std::set<std::string>& alone, int64_t now_ns);
  void check_uploads(Loop& loop, const Bucket& bucket, int64_t now_ns);

  // A request of the root's, through the router.
  Reply ask(Loop& loop, std::string_view method, const std::string& target, s3::Headers headers = {},
            const std::string& body = {});
  Operation& begin(Bucket& bucket, Operation operation);
  void answer(Bucket& bucket, Operation& operation, Operation::Outcome outcome = Operation::Outcome::done);
  // An error that promises nothing.
  void answer_error(Bucket& bucket, Operation& operation, const Error& error);
  void answer_error(Bucket& bucket, Operation& operation, const Reply& reply);
  void close(Bucket& bucket, Operation& operation, uint64_t noted);
  void unsettled(Bucket& bucket, Operation& operation, bool is_barred);
  void turn_elsewhere(Bucket& bucket, uint32_t key);
  bool is_barred(const Operation& operation, bool unavailable, std::string_view text) const;
  // While nothing has befallen the server a call does not fail, except for a full queue.
  void note_failure(std::string_view what, std::string_view code);
  // Of a change of a key.
  void note_failure(std::string_view what, const Reply& reply, const Bucket& bucket, uint32_t key);
  bool is_doubt(const Bucket& bucket, uint32_t key, bool unavailable);
  // What the clock of a server may have said before a call, and says at most by now.
  int64_t earliest_ns() const;
  int64_t latest_ns();
  void fail_with(std::string why);
  uint64_t draw(uint64_t below);
  int64_t draw_ns(uint64_t ms_max);

  const Plan plan_;
  const int64_t day_s_;
  const std::unique_ptr<Engine> engine_;
  const std::unique_ptr<auth::KeyRing> keys_ = auth::KeyRing::in_memory();
  std::vector<std::unique_ptr<Server>> servers_;
  static thread_local Server* server_;  // that the thread's calls go to
  struct Elsewhere {
    Server* server = nullptr;
    Loop* loop = nullptr;
  };
  static thread_local Elsewhere elsewhere_;  // another one, that a client turns to when its own does not know
  Values values_;
  std::deque<Bucket> buckets_;
  std::vector<Bucket*> used_;             // by clients
  std::list<Upload> uploads_, doubtful_;  // doubtful: after a completion without an answer
  std::vector<std::unique_ptr<Scene>> scenes_;
  std::list<int64_t*> begins_;  // of uploads that begin: not earlier than this
  uint64_t order_ = 0, clock_ = 0, until_ = 0, crashes_ = 0;
  int64_t latest_ns_ = 0;  // of the wall clock
  uint64_t refused_ = 0;   // calls that were answered with SlowDown while nothing had befallen the server
  bool alone_ = true;      // no more than one client works
  bool stop_ = false, faulty_ = false, decays_ = false;
  std::atomic<bool> stop_passes_{false};
  uint64_t pass_rest_ms_ = 100;
  Storm storm_;
  // By server, bucket and key: a server that was given up while it could not be reached has lost its receipts. It may
  // say of its next change there that it does not know what became of it.
  std::set<std::tuple<size_t, const Bucket*, uint32_t>> doubts_;
  std::vector<std::string> fates_;  // of the rounds
  std::string failure_;
  std::unique_ptr<Native> native_{};
};

}  // namespace verbena::simulator
