// A part of a world that has buckets of its own and judges the answers there by itself.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulator/server.h"
#include "simulator/world.h"

namespace verbena::simulator {

class Scene {
 public:
  using Loop = boost::asio::io_context;
  Scene(World& world, std::string name) : world_(world), name_(std::move(name)) {}
  virtual ~Scene() = default;
  const std::string& name() const { return name_; }  // of scene_names()

  virtual void begin(Loop& loop) = 0;          // once: makes its buckets
  virtual void begin_round(Loop& /*loop*/) {}  // no client works
  virtual void act(Loop& loop) = 0;            // of a client; many at once
  virtual void settle(Loop& /*loop*/) {}       // at the end of a round in which nothing befell: no client works
  virtual void crash() {}                      // what is under way gets no answer
  virtual void look(Loop& loop) = 0;           // between rounds: only reads; while something befell they may fail
  // A server opens, before any call, and ends, before its store.
  virtual void opened(World::Server& /*server*/) {}
  virtual void closes(World::Server& /*server*/) {}
  virtual void gone(size_t /*server*/) {}
  virtual void clock_went_back(int64_t /*by_ns*/) {}

 protected:
  using Reply = World::Reply;
  Reply ask(Loop& loop, std::string_view method, const std::string& target, s3::Headers headers = {},
            const std::string& body = {});
  // What other clients of the same server do, all at once.
  void together(const std::vector<std::function<void(Loop&)>>& calls);
  void make_bucket(Loop& loop, const std::string& bucket, const std::string& body = {});
  // After a call without a promise. False: it may happen until the round ends.
  bool settled();
  bool befell() const;
  bool failed_to_sync() const;  // Engine's
  int64_t latest_ns();          // World's
  // Whether servers share the store: each may know late what others did.
  bool shared() const;
  bool one_moment() const;          // Engine's
  int64_t clocks_apart_ns() const;  // likewise
  int64_t duty_ns() const;          // likewise
  // While nothing has befallen the server a call does not fail, except for a full queue.
  void note_failure(std::string_view what, const Reply& reply);
  void fail_with(std::string why);
  uint64_t draw(uint64_t below);
  Values& values();
  World::Server& server();
  std::vector<World::Server*> servers();
  // Where servers share the store: the leader's term, while it is that server; 0 else.
  std::function<uint64_t()> term(const World::Server& server) const;
  std::function<void()> may_freeze(const World::Server& server) const;  // Engine's

 private:
  World& world_;
  const std::string name_;
  std::list<std::unique_ptr<Loop>> loops_;  // of together(); the store's threads may still be waking them
};

std::vector<std::unique_ptr<Scene>> make_scenes(World& world, const Plan& plan);

// Each in its file.
std::unique_ptr<Scene> make_buckets(World& world);
std::unique_ptr<Scene> make_customer_keys(World& world);
std::unique_ptr<Scene> make_events(World& world);
std::unique_ptr<Scene> make_suspensions(World& world);
std::unique_ptr<Scene> make_upload_races(World& world);
std::unique_ptr<Scene> make_quotas(World& world);
std::unique_ptr<Scene> make_lasting(World& world);
std::unique_ptr<Scene> make_bounded(World& world);
std::unique_ptr<Scene> make_memory_bucket(World& world);

}  // namespace verbena::simulator
