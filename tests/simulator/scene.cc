#include "simulator/scene.h"

#include <fmt/format.h>

#include <thread>

#include "simulator/scheduler.h"

namespace verbena::simulator {

Scene::Reply Scene::ask(Loop& loop, std::string_view method, const std::string& target, s3::Headers headers,
                        const std::string& body) {
  ++world_.clock_;
  return world_.ask(loop, method, target, std::move(headers), body);
}

void Scene::together(const std::vector<std::function<void(Loop&)>>& calls) {
  std::list<std::unique_ptr<Loop>> loops;
  std::list<std::thread> threads;
  for (const auto& call : calls) {
    if (loops_.empty()) {
      loops.push_back(std::make_unique<Loop>());
    } else {
      loops.splice(loops.end(), loops_, loops_.begin());
    }
    threads.emplace_back([this, &server = server(), &loop = *loops.back(), &call] {
      world_.enter(server);
      call(loop);
    });
  }
  for (std::thread& thread : threads) thread.join();
  loops_.splice(loops_.end(), loops);
}

void Scene::make_bucket(Loop& loop, const std::string& bucket, const std::string& body) {
  const Reply reply = ask(loop, "PUT", "/" + bucket, {}, body);
  if (!reply.ok()) fail_with(fmt::format("no bucket {}: {}", bucket, reply.body));
}

bool Scene::settled() {
  if (world_.engine_->errors_pend()) return false;
  sleep_for(world_.engine_->settles_ns());
  return true;
}

bool Scene::befell() const { return world_.engine_->befell(); }

bool Scene::failed_to_sync() const { return world_.engine_->failed_to_sync(); }

int64_t Scene::latest_ns() { return world_.latest_ns(); }

bool Scene::shared() const { return world_.engine_->shared(); }

bool Scene::one_moment() const { return world_.engine_->one_moment(); }

int64_t Scene::clocks_apart_ns() const { return world_.engine_->clocks_apart_ns(); }

int64_t Scene::duty_ns() const { return world_.engine_->duty_ns(); }

// A server that was given up while it could not be reached may say of its next change of a key that it does not know
// what became of it.
void Scene::note_failure(std::string_view what, const Reply& reply) {
  if (shared() && reply.code == "ServiceUnavailable") return;
  world_.note_failure(what, reply.code == "SlowDown" ? reply.code : reply.code + " " + reply.body);
}

void Scene::fail_with(std::string why) { world_.fail_with(name_ + ": " + std::move(why)); }

uint64_t Scene::draw(uint64_t below) { return world_.draw(below); }

Values& Scene::values() { return world_.values_; }

World::Server& Scene::server() { return *World::server_; }

std::vector<World::Server*> Scene::servers() {
  std::vector<World::Server*> all;
  for (const auto& server : world_.servers_) {
    if (server) all.push_back(server.get());
  }
  return all;
}

std::function<uint64_t()> Scene::term(const World::Server& server) const { return world_.engine_->term(server.number); }

std::function<void()> Scene::may_freeze(const World::Server& server) const {
  return [engine = world_.engine_.get(), number = server.number] { engine->may_freeze(number); };
}

std::vector<std::unique_ptr<Scene>> make_scenes(World& world, const Plan& plan) {
  using Make = std::unique_ptr<Scene> (*)(World&);
  const std::pair<const char*, Make> known[] = {
      {"keys", make_customer_keys}, {"races", make_upload_races}, {"quotas", make_quotas},
      {"buckets", make_buckets},    {"events", make_events},      {"suspensions", make_suspensions},
      {"lasting", make_lasting},    {"bounded", make_bounded},    {"memory", make_memory_bucket},
  };
  std::vector<std::unique_ptr<Scene>> made;
  for (const auto& [name, make] : known) {
    if (plan.has_scene(name)) made.push_back(make(world));
  }
  return made;
}

}  // namespace verbena::simulator
