// A model of a Ceph cluster, behind librados's own interface: rados_model_librados.cc defines the functions of
// librados that store/rados calls, and the linker takes them instead of the library's.
//
// It has threads, locks and clocks as any code has, so that it runs in virtual time inside the simulator and in real
// time in its own test. What it keeps to of RADOS: an operation vector is atomic on its object; calls of one client on
// one object arrive in order, others in any; a call that has timed out may still be made; a call whose answer was lost
// is sent again, and a placement group that has forgotten it makes it once more; a watch stands while its client is
// heard of.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <random>
#include <string>
#include <vector>

#include "simulator/rados_model_object.h"

namespace verbena::simulator {

using RadosTime = std::chrono::steady_clock::time_point;
using RadosDuration = std::chrono::steady_clock::duration;

// How often something goes wrong, of 65,536 calls.
struct RadosWeather {
  uint32_t slow = 256;               // takes up to a fifth of a second
  uint32_t answer_lost = 0;          // made, and sent again
  uint32_t late = 0;                 // held back, often until its client has given up
  uint32_t watch_broken = 0;         // of all watches, each second
  uint64_t calls_remembered = 3000;  // by a placement group: it does not make those again
};

class RadosSession;
using RadosSessionPtr = std::shared_ptr<RadosSession>;

// A call under way.
struct RadosCall {
  RadosSessionPtr session;
  std::string pool, object;  // the object's namespace stands in front of its name
  bool is_write = false, full_try = false, has_timeout = true;
  RadosOperations operations{};
  // In place of the operations. None: the answer comes later.
  std::function<std::optional<RadosOutcome>()> act{};
  std::function<void(int code, uint64_t version)> done{};  // once, on a thread of the client

  bool is_over = false;                   // `done` is on its way: nothing more is delivered
  bool is_sent_again = false;             // which its client does as long as it waits
  std::optional<RadosOutcome> outcome{};  // it was made
  uint64_t made_at = 0;                   // its placement group's count of calls then
  RadosTime deadline{};
};
using RadosCallPtr = std::shared_ptr<RadosCall>;

class RadosModel {
 public:
  static RadosModel& get();

  // Before the first client. `note`: into a trace.
  void start(uint64_t seed, std::function<void(uint64_t)> note = {});
  void add_pool(const std::string& name, bool erasure_coded = false);

  // What befalls it. A client is named by the user that it connected as.
  static constexpr size_t osds = 4;
  void set_weather(RadosWeather weather);
  void stall(size_t osd, RadosDuration lasts);  // it does nothing, and then what it was sent
  void set_full(bool full);
  void cut(const std::string& user, RadosDuration lasts);  // its client reaches no OSD
  void freeze(const std::string& user, bool frozen);       // the caller stops its threads
  void shut_out(const std::string& user);                  // by the blocklist
  void let_in(const std::string& user);                    // its entry has expired
  // Its writes do not arrive at that OSD, while reads that were sent before them do; nothing that it sends on an object
  // overtakes one.
  void hold_writes(const std::string& user, size_t osd, RadosDuration lasts);
  // None of that client's calls arrives on objects whose names end so.
  void hold(const std::string& user, const std::string& ending, RadosDuration lasts);
  // Likewise, from the moment in which a call of that client has left the row in that object.
  void hold_from(const std::string& user, const std::string& object, const std::string& row, const std::string& ending,
                 RadosDuration lasts);
  // The next call of that client but so many, on objects with that in their names, gets this code. `is_made`: whether
  // it is made all the same.
  void fail_call(const std::string& user, const std::string& part, size_t after, int code, bool is_made = false);
  void fail_notify(const std::string& user, int code);  // its next one is not made and gets this code
  void kill(const std::string& user);                   // what it has sent may land for a minute more

  uint64_t calls();
  std::vector<std::string> list(const std::string& pool);
  std::optional<RadosObject> find(const std::string& pool, const std::string& object);

 private:
  friend class RadosSession;
  struct Pool {
    bool erasure_coded = false;
    std::map<std::string, std::optional<RadosObject>> objects;
  };
  struct Watch {
    std::weak_ptr<RadosSession> session;
    std::string pool, object;
    RadosDuration lasts;
    RadosTime heard;
  };
  struct Notify {
    uint64_t number = 0, client = 0;
    RadosCallPtr call;
    std::string message;
    std::map<uint64_t, uint64_t> waiting;  // watch -> client
    std::map<uint64_t, std::pair<uint64_t, std::string>> answers;
    bool is_over = false;
  };
  using NotifyPtr = std::shared_ptr<Notify>;
  struct Event {
    RadosTime at;
    uint64_t number;
    std::function<void()> run;
    bool operator<(const Event& other) const { return at != other.at ? at > other.at : number > other.number; }
  };
  using Lock = std::unique_lock<std::mutex>;

  static RadosTime now() { return std::chrono::steady_clock::now(); }
  uint64_t draw(uint64_t below) { return random_() % below; }
  bool chance(uint32_t of_65536) { return of_65536 != 0 && draw(65'536) < of_65536; }
  RadosDuration delay();
  void at(RadosTime time, std::function<void()> run);
  void later(RadosDuration after, std::function<void()> run) { at(now() + after, std::move(run)); }
  // For threads of clients: whatever they do here they do at once, and hold no lock while they may be stopped.
  template <class F>
  auto enter(F function) {
    struct Wake {
      std::condition_variable& woken;
      bool sooner = false;
      ~Wake() {
        if (sooner) woken.notify_one();
      }
    } wake{woken_};
    struct Look {
      RadosModel& model;
      bool& sooner;
      ~Look() { sooner = !model.events_.empty() && model.events_.top().at < model.sleeps_until_; }
    };
    const Lock lock(mutex_);
    const Look look{*this, wake.sooner};
    return function();
  }
  void run();

  // Calls. rados_model.cc
  void send(const RadosCallPtr& call);
  void arrive(const RadosCallPtr& call);
  bool fails(const RadosCallPtr& call);
  bool falls_with_its_client(const RadosCallPtr& call);
  void make(const RadosCallPtr& call);
  void begin_hold(const RadosCall& call);
  RadosOutcome execute(RadosCall& call);
  void answer(const RadosCallPtr& call);
  void finish(const RadosCallPtr& call, int code);
  RadosTime held_until(const RadosCall& call) const;
  RadosTime blocked_until(const RadosSession& session, const std::string& object) const;
  bool reaches(const RadosSession& session, const std::string& object) const;
  static size_t group_of(const std::string& object);
  template <class F>
  void each_session(const std::string& user, F function);

  // Watches. rados_model_watch.cc
  void tick();
  void break_watch(uint64_t number, Watch& watch);
  void keep_watch(uint64_t number, Watch& watch);
  void end_watch(uint64_t number);
  void end_watches(const std::string& pool, const std::string& object);
  void list_watchers(const RadosCall& call, RadosOutcome& outcome) const;
  std::optional<RadosOutcome> begin_watch(const RadosCallPtr& call, uint64_t number, RadosDuration lasts);
  void begin_notify(const RadosCallPtr& call, std::string message, RadosDuration lasts);
  void tell(const NotifyPtr& notify, uint64_t watch);
  void forget(const NotifyPtr& notify, uint64_t watch);
  void end_notify(const NotifyPtr& notify, int code);

  std::mutex mutex_;  // of all below
  std::condition_variable woken_;
  bool started_ = false, full_ = false;
  RadosTime sleeps_until_{};  // its own thread
  std::priority_queue<Event> events_;
  uint64_t last_event_ = 0, last_client_ = 4100, last_watch_ = 0, last_notify_ = 0, calls_ = 0;
  std::mt19937_64 random_{1};
  std::function<void(uint64_t)> note_;
  RadosWeather weather_;
  RadosTime stalled_until_[osds] = {};
  static constexpr size_t groups = 8;
  uint64_t group_calls_[groups] = {}, versions_ = 0;
  std::map<std::string, Pool> pools_;
  std::vector<std::weak_ptr<RadosSession>> sessions_;
  std::map<uint64_t, Watch> watches_;
  std::map<uint64_t, NotifyPtr> notifies_;
};

}  // namespace verbena::simulator
