#include "simulator/rados_engine.h"

#include <fmt/format.h>

#include <algorithm>

#include "simulator/rados_model.h"
#include "simulator/scheduler.h"
#include "store/hot_store.h"
#include "store/rados/rados_store.h"

namespace verbena::simulator {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using store::rados::RadosStore;

constexpr int64_t second_ns = 1'000'000'000;
constexpr int64_t taken_over_ns = 16 * second_ns;  // of silence: another server leads then

uint64_t draw(uint64_t below) { return Scheduler::get().random() % below; }
int64_t draw_ns(uint64_t seconds_max) { return static_cast<int64_t>(draw(seconds_max * 1000)) * 1'000'000; }

void pass_time(int64_t ns) {
  Scheduler& scheduler = Scheduler::get();
  scheduler.sleep_until(scheduler.steady_ns() + ns);
}

}  // namespace

// What a scene judges comes to light in some of them.
std::vector<RadosEngine::Fault> RadosEngine::faults_of(const std::vector<std::string>& scenes) {
  std::vector<Fault> faults{Fault::none, Fault::weather, Fault::stalls,   Fault::cuts, Fault::holds,
                            Fault::kill, Fault::freeze,  Fault::shut_out, Fault::full};
  const auto has = [&](const char* scene) { return std::ranges::find(scenes, scene) != scenes.end(); };
  if (has("events")) faults.insert(faults.end(), 2, Fault::freeze);
  if (has("buckets")) faults.insert(faults.end(), 2, Fault::weather);
  return faults;
}

RadosEngine::RadosEngine(const std::vector<std::string>& scenes)
    : faults_(faults_of(scenes)),
      servers_(1 + draw(servers_max)),
      hot_(draw(2) == 0),
      split_rows_(draw(2) == 0 ? one_tablet : 6 + draw(40)),
      clocks_apart_ns_(std::array<int64_t, 4>{0, 50'000'000, second_ns, 4 * second_ns}[draw(4)]) {
  RadosModel& model = RadosModel::get();
  model.add_pool("data", draw(2) == 0);
  model.add_pool("index");
  Scheduler::get().set_group(0);
  for (size_t server = 0; server < servers_; ++server) set_clock(server);
  model.start(Scheduler::get().random(), [](uint64_t event) { Scheduler::get().note(event); });
}

std::string RadosEngine::user(size_t server) const { return fmt::format("server-{}-{}", server, starts_[server]); }

Result<std::unique_ptr<store::Store>> RadosEngine::open(size_t server, memory::Arena& arena, BlockingPool& /*pool*/,
                                                        std::string& trouble) {
  ++starts_[server];
  store::rados::Options options;
  options.user = user(server);
  options.pool = "data";
  options.index_pool = "index";
  options.name_space = "store";
  // A server with a larger size joins what the others split.
  options.split_rows = split_rows_ == one_tablet || draw(3) != 0 ? split_rows_ : 8 * split_rows_;
  options.arena = &arena;
  options.read_leases = hot_;
  auto opened = RadosStore::connect(options);
  if (!opened) {
    trouble = opened.error();
    return fail(Errc::service_unavailable, "the cluster");
  }
  stores_[server] = opened->get();
  if (!hot_) return std::move(*opened);
  under_[server] = std::move(*opened);
  return std::make_unique<store::HotStore>(
      *under_[server],
      store::HotStore::Options{.arena = &arena, .capacity = 8 * MiB, .shared = stores_[server], .keep_after = 1});
}

std::function<bool()> RadosEngine::duty(size_t server) const {
  return [store = stores_[server]] { return store->leader_term() != 0; };
}

std::function<uint64_t()> RadosEngine::term(size_t server) const {
  return [store = stores_[server]] { return store->leader_term(); };
}

void RadosEngine::begin_round() {
  for (size_t server = 0; server < servers_; ++server) {
    if (draw(3) == 0) set_clock(server);
  }
  fault_ = faults_[draw(faults_.size())];
  victim_ = draw(servers_);
  stopped_ = over_ = frozen_ = false;
  offered_.reset();
  linger_ns_ = fault_ == Fault::holds ? std::array{10 * second_ns, 30 * second_ns}[draw(2)] : 0;
  if (fault_ == Fault::none) return;
  ends_ns_ = Scheduler::get().steady_ns() + 400 * second_ns;
  befell_ = fault_ == Fault::weather || draw(2) == 0;
  if (befell_) {
    const uint32_t much = std::array<uint32_t, 4>{300, 300, 3000, 12'000}[draw(4)];
    RadosModel::get().set_weather({.answer_lost = static_cast<uint32_t>(draw(much)),
                                   .late = static_cast<uint32_t>(draw(std::min(much, 3000u) / 20)),
                                   .watch_broken = static_cast<uint32_t>(draw(much)),
                                   .calls_remembered = draw(2) == 0 ? 3000 : draw(20)});
  }
  fate_ = std::thread([this] { befall(); });
}

std::string RadosEngine::fate() const {
  constexpr const char* names[] = {"none",   "weather", "stalls",      "cuts", "holds",
                                   "a kill", "freezes", "a blocklist", "full"};
  return names[static_cast<size_t>(fault_)];
}

bool RadosEngine::rest(int64_t ns) {
  Scheduler& scheduler = Scheduler::get();
  for (const int64_t until = scheduler.steady_ns() + ns; !over_ && !offered_ && scheduler.steady_ns() < until;) {
    scheduler.wait(&offered_, std::min(until + 1, scheduler.steady_ns() + second_ns / 2));
  }
  return !over_;
}

void RadosEngine::befall() {
  while (rest(draw(4) == 0 ? draw_ns(20) : draw_ns(1))) befall_once();
}

void RadosEngine::befall_once() {
  RadosModel& model = RadosModel::get();
  const bool is_offered = offered_.has_value();
  const size_t server = is_offered ? *std::exchange(offered_, std::nullopt) : draw(servers_);
  if (draw(6) == 0) set_clock(server);
  befell_ = true;
  switch (fault_) {
    case Fault::stalls:
      return model.stall(draw(RadosModel::osds), milliseconds(draw(draw(2) == 0 ? 3000 : 40'000)));
    case Fault::cuts:
      return model.cut(user(server), milliseconds(draw(draw(2) == 0 ? 3000 : 40'000)));
    case Fault::holds:
      return hold(server, 30 * second_ns + draw_ns(70));
    case Fault::freeze:
      return freeze(server, is_offered ? taken_over_ns + draw_ns(45) : draw_ns(draw(2) == 0 ? 3 : 60));
    case Fault::kill:
      stopped_ = true;
      return model.kill(user(victim_));
    case Fault::shut_out:
      return shut_out();
    case Fault::full:
      model.set_full(true);
      rest(draw_ns(10));
      return model.set_full(false);
    case Fault::none:
    case Fault::weather:
      return;
  }
}

// For good, or until its entry of the blocklist has expired: then it goes on as it is.
void RadosEngine::shut_out() {
  RadosModel& model = RadosModel::get();
  if (draw(2) == 0) stopped_ = true;
  model.shut_out(user(victim_));
  if (stopped_) return;
  rest(draw_ns(draw(2) == 0 ? 3 : 60));
  model.let_in(user(victim_));
}

void RadosEngine::hold(size_t server, int64_t lasts_ns) {
  RadosModel::get().hold_writes(user(server), draw(RadosModel::osds), std::chrono::nanoseconds(lasts_ns));
  held_until_ns_ = std::max(held_until_ns_, Scheduler::get().steady_ns() + lasts_ns);
  rest(draw_ns(120));
}

void RadosEngine::freeze(size_t server, int64_t lasts_ns) {
  Scheduler& scheduler = Scheduler::get();
  frozen_ = true;
  RadosModel::get().freeze(user(server), true);
  scheduler.freeze(server + 1, scheduler.steady_ns() + lasts_ns);
  rest(lasts_ns);
  scheduler.freeze(server + 1, 0);
  RadosModel::get().freeze(user(server), false);
  frozen_ = false;
}

// The thread that freezes servers does it, while this one waits.
void RadosEngine::may_freeze(size_t server) {
  if (fault_ != Fault::freeze || over_ || frozen_ || offered_ || draw(8) != 0) return;
  offered_ = server;
  Scheduler::get().wake(&offered_);
  pass_time(second_ns / 100);
}

// It jumps there, and goes a little too fast or too slowly from then on.
void RadosEngine::set_clock(size_t server) {
  constexpr int64_t drift_ppm_max = 20'000;
  const auto around = [](int64_t most) {
    return static_cast<int64_t>(draw(static_cast<uint64_t>(2 * most) + 1)) - most;
  };
  Scheduler::get().set_clock(server + 1, around(clocks_apart_ns_), around(drift_ppm_max), clocks_apart_ns_);
}

// Calls are made up to three times, of 10 s each, and may land a minute later.
int64_t RadosEngine::settles_ns() const { return befell() ? 130 * second_ns : 0; }

int64_t RadosEngine::duty_ns() const { return 20 * second_ns; }

bool RadosEngine::stopped(size_t server) const {
  return (stopped_ && server == victim_) || (befell() && Scheduler::get().steady_ns() > ends_ns_);
}

bool RadosEngine::leaves(size_t server) { return (stopped_ && server == victim_) || draw(4) == 0; }

void RadosEngine::left(size_t server) { under_[server].reset(); }

void RadosEngine::calm() {
  RadosModel& model = RadosModel::get();
  model.set_weather({});
  model.set_full(false);
  for (size_t osd = 0; osd < RadosModel::osds; ++osd) model.stall(osd, {});
  for (size_t server = 0; server < servers_; ++server) model.cut(user(server), {});
}

bool RadosEngine::end_round() {
  over_ = true;
  if (fate_.joinable()) fate_.join();
  calm();
  if (befell()) pass_time(std::max(60 * second_ns, held_until_ns_ + second_ns - Scheduler::get().steady_ns()));
  const bool crashed = stopped_;
  fault_ = Fault::none;
  linger_ns_ = 0;
  stopped_ = befell_ = false;
  return crashed;
}

std::string RadosEngine::check_open(size_t server) {
  const auto survey = stores_[server]->survey();
  if (!survey) return "survey: " + describe(survey.error());
  if (survey->lost_count == 0) return {};
  std::string text = fmt::format("survey: {} lost", survey->lost_count);
  for (const std::string& row : survey->lost) text += "\n  " + row;
  return text;
}

}  // namespace verbena::simulator
