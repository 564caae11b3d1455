// A client of the modelled cluster: its calls under way, its watches, and the threads that call it back.
#pragma once

#include <rados/librados.hpp>

#include <deque>
#include <map>
#include <thread>

#include "simulator/rados_model.h"

namespace verbena::simulator {

class RadosSession : public std::enable_shared_from_this<RadosSession> {
 public:
  // As librados has them: completions on one thread, notices of watches on another.
  static RadosSessionPtr connect(const std::string& user, RadosDuration timeout);
  void close();  // when all of its calls have ended, and before the last reference goes

  void send(RadosCallPtr call);
  int wait_for(RadosCallPtr call);  // not on one of its threads
  bool has_pool(const std::string& name);
  bool is_erasure_coded(const std::string& pool);

  uint64_t watch(const std::string& pool, const std::string& object, RadosDuration lasts, librados::WatchCtx2* context,
                 std::function<void(int, uint64_t)> done);
  void unwatch(uint64_t number, std::function<void(int, uint64_t)> done);
  int age_of(uint64_t watch);  // in ms; negative: it was lost
  void notify(const std::string& pool, const std::string& object, std::string message, RadosDuration lasts,
              std::function<void(RadosAnswer&)> answer, std::function<void(int, uint64_t)> done);
  void acknowledge(const std::string& pool, const std::string& object, uint64_t notify, uint64_t watch,
                   std::string answer);
  void flush_watches();
  // Names after that one in an order of its own, some at once. Empty: there are no more.
  std::vector<std::string> list(const std::string& pool, const std::string& name_space, const std::string& after);

  uint64_t id() const { return id_; }
  const std::string& user() const { return user_; }

 private:
  friend class RadosModel;
  class Lane {
   public:
    Lane();
    void post(std::function<void()> what);
    void close();

   private:
    void run();
    std::mutex mutex_;
    std::condition_variable woken_;
    std::deque<std::function<void()>> queue_;
    bool closed_ = false;
    std::thread thread_;
  };
  struct Watching {
    librados::WatchCtx2* context;
    std::string pool, object;
    RadosTime confirmed;
    bool lost = false, told = false;
  };
  RadosSession(std::string user, RadosDuration timeout) : user_(std::move(user)), timeout_(timeout) {}
  RadosCallPtr call_on(const std::string& pool, const std::string& object, std::function<void(int, uint64_t)> done);
  librados::WatchCtx2* context_of(uint64_t watch);

  const std::string user_;
  const RadosDuration timeout_;
  RadosModel& model_ = RadosModel::get();
  Lane completions_, notices_;
  // Guarded by the model.
  uint64_t id_ = 0;
  bool dead_ = false, shut_out_ = false, frozen_ = false, closed_ = false;
  RadosTime cut_until_{};
  RadosTime writes_held_until_[RadosModel::osds] = {};
  std::map<std::string, RadosTime> held_until_;  // by the ending of objects' names
  struct HoldFrom {
    std::string object, row, ending;
    RadosDuration lasts{};
  };
  std::optional<HoldFrom> hold_from_;
  struct Failing {
    std::string part;
    size_t after = 0;
    int code = 0;
    bool is_made = false;
  };
  std::optional<Failing> failing_;
  int failing_notify_ = 0;                          // a code; 0: none fails
  std::map<std::string, RadosTime> last_arrivals_;  // by object
  std::map<std::string, RadosTime> landing_;        // of a dead client's calls, by object; max: never
  std::deque<RadosCallPtr> under_way_;              // by deadline
  std::map<uint64_t, Watching> watching_;
};

}  // namespace verbena::simulator
