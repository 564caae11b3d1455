// verbena_simulator [--engine rados] --seed N [--operations N] [--clients N]: one world. --seeds FROM..TO: one after
// another, each in a process of its own. --replay FILE: those of a file. Prints for each seed the hash of its trace.
#include <malloc.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>

#include "base/log.h"
#include "base/ticks.h"
#include "simulator/local_engine.h"
#include "simulator/rados_engine.h"
#include "simulator/scheduler.h"
#include "simulator/watchdog.h"
#include "simulator/world.h"

namespace verbena::simulator {
namespace {

// Addresses decide the order of some tables: they repeat.
void fix_addresses(char** argv) {
  if ((personality(0xffffffff) & ADDR_NO_RANDOMIZE) == 0 && personality(ADDR_NO_RANDOMIZE) != -1) {
    execv("/proc/self/exe", argv);
  }
  mallopt(M_ARENA_MAX, 1);
}

// Threads that take turns are faster on one processor.
void stay_on_one_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<size_t>(std::max(sched_getcpu(), 0)), &one);
  sched_setaffinity(0, sizeof one, &one);
}

// A world that takes more fails, by an exception; others need a tenth of it.
void bound_memory() {
  constexpr rlimit most{.rlim_cur = rlim_t{3} << 30, .rlim_max = rlim_t{3} << 30};
  setrlimit(RLIMIT_DATA, &most);
}

std::unique_ptr<Engine> make_engine(const Plan& plan) {
  if (plan.engine == "rados") return std::make_unique<RadosEngine>(plan.scenes);
  // Watches and bounds are told of changes by the engine itself, which these look for before the verbs.
  const bool needs_feeds = plan.native || plan.has_scene("bounded");
  return std::make_unique<LocalEngine>(/*hot=*/!needs_feeds && plan.seed / 4 % 2 == 1);  // half of kinds()
}

// What the last world that ran has told, in whichever process.
struct Told {
  uint64_t operations;
  char failure[120];  // its text without its numbers: of two worlds that fail alike the same
};
Told& told() {
  static auto* const shared =
      static_cast<Told*>(mmap(nullptr, sizeof(Told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  return *shared;
}

// What is wrong with the server; other statuses are of the simulator: no memory, no end.
constexpr int world_failed = 1;

// `file`: what a failure is called there, besides its seed.
int run_seed(const Plan& plan, const char* file = "") {
  begin_watchdog(plan.seed, plan.seconds_max);
  stay_on_one_processor();
  bound_memory();
  tick_source();
  detail::ticking = {};
  timespec from{}, to{};
  const auto now = [](timespec& time) { kernel(SYS_clock_gettime, CLOCK_MONOTONIC, reinterpret_cast<long>(&time)); };
  now(from);
  Scheduler& scheduler = Scheduler::get();
  scheduler.start(plan.seed, plan.engine == "local" && plan.has("stalls"));
  World world(plan, make_engine(plan));
  const bool held = world.run();
  now(to);
  const double seconds =
      static_cast<double>(to.tv_sec - from.tv_sec) + static_cast<double>(to.tv_nsec - from.tv_nsec) / 1e9;
  std::printf("seed %lu: trace %016lx, %lu operations, %lu crashes, %lu switches, %.2f s, %.0f operations/s\n",
              plan.seed, scheduler.trace(), world.operations(), world.crashes(), scheduler.switches(), seconds,
              static_cast<double>(world.operations()) / seconds);
  told().operations = world.operations();
  if (!held) {
    const std::string why = world.failure();
    std::string kind = why.substr(0, why.find('\n'));
    std::erase_if(kind, [](char c) { return c >= '0' && c <= '9'; });
    std::snprintf(told().failure, sizeof told().failure, "%s", kind.c_str());
    std::printf("seed %lu: FAILED: %s\n", plan.seed, why.c_str());
    std::ofstream("simulator-" + std::to_string(plan.seed) + file + ".txt") << plan.command() << "\n" << why;
  }
  std::fflush(nullptr);
  _exit(held ? 0 : world_failed);  // what the world's threads still hold ends with the process
}

// In a process of its own. Its exit status.
int run_apart(const Plan& plan, bool quiet, const char* file = "") {
  std::fflush(nullptr);
  told() = {.operations = plan.operations, .failure = {}};
  const pid_t child = fork();
  if (child == 0) {
    if (quiet && (std::freopen("/dev/null", "w", stdout) == nullptr || chdir("/tmp") != 0)) _exit(2);
    run_seed(plan, file);
  }
  int status = 0;
  while (waitpid(child, &status, 0) != child) {
  }
  return status;
}

bool is_failure(int status) {
  return WIFSIGNALED(status) || (WIFEXITED(status) && WEXITSTATUS(status) == world_failed);
}

// Tells a smaller world that fails alike, and leaves its history in a file of its own.
void tell_smaller(const Plan& plan, int status) {
  const auto began = std::chrono::steady_clock::now();
  const auto has_time = [&] { return std::chrono::steady_clock::now() - began < std::chrono::seconds(60); };
  const std::string failure = told().failure;
  const auto fails = [&](const Plan& smaller) -> std::optional<uint64_t> {
    if (run_apart(smaller, /*quiet=*/true) != status || failure != told().failure) return std::nullopt;
    return told().operations;
  };
  const Plan smaller = shrink(plan, told().operations, fails, has_time);
  std::printf("smaller: %s\n", smaller.command().c_str());
  run_apart(smaller, /*quiet=*/false, "-smaller");
}

// A world of many. False: it failed, which is told, with a smaller one, and with the line by which it stays a test.
bool held(const Plan& plan, bool shrinks) {
  const int status = run_apart(plan, /*quiet=*/false);
  if (status == 0) return true;
  const std::string line = plan.arguments() + "  # " + told().failure;
  std::printf("seed %lu: FAILED (status %d); again: %s\n", plan.seed, status, plan.command().c_str());
  std::printf("once it is mended, a line for tests/simulator/seeds.txt: %s\n", line.c_str());
  if (shrinks && is_failure(status)) tell_smaller(plan, status);
  return false;
}

void add_world(CLI::App& app, Plan& plan) {
  app.add_option("--seed", plan.seed, "the world");
  app.add_option("--operations", plan.operations, "of each seed");
  app.add_option("--engine", plan.engine, "local or rados")->check(CLI::IsMember({"local", "rados"}));
  app.add_flag("--native", plan.native, "half of the clients use the native door, over a simulated fabric");
  app.add_option("--clients", plan.clients, "at once");
  app.add_option("--seconds-max", plan.seconds_max, "of a processor's time: a seed that takes longer hangs");
  app.add_option("--without", plan.without,
                 "parts of the world: faults, jumps, passes, rules, damage, storms, stalls, or a bucket")
      ->delimiter(',')
      ->check(CLI::IsMember(parts()));
  app.add_option("--scenes", plan.scenes, "buckets with oracles of their own, besides")
      ->delimiter(',')
      ->check(CLI::IsMember(scene_names()));
}

// The worlds of a file: in each line the options of one, and behind `#` what it once found. False: one failed, or the
// file has none.
bool replay(const std::string& file, bool shrinks) {
  std::ifstream lines(file);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) {
    line.erase(std::min(line.find('#'), line.size()));
    if (line.find_first_not_of(' ') == std::string::npos) continue;
    Plan plan;
    CLI::App app;
    add_world(app, plan);
    app.parse(line);
    if (!held(plan, shrinks)) return false;
    ++count;
  }
  std::printf("%lu worlds of %s: nothing lost, nothing wrong\n", count, file.c_str());
  return count != 0;
}

// Until a seed fails or the time is over. The kind of a seed's world is the one of `kinds` at the seed's remainder.
int run_seeds(const std::vector<Plan>& kinds, uint64_t first, uint64_t last, double seconds, bool shrinks) {
  const auto began = std::chrono::steady_clock::now();
  uint64_t count = 0;
  for (uint64_t seed = first; seed <= last; ++seed) {
    if (seconds > 0 && std::chrono::steady_clock::now() - began > std::chrono::duration<double>(seconds)) break;
    Plan plan = kinds[seed % kinds.size()];
    plan.seed = seed;
    if (!held(plan, shrinks)) return 1;
    ++count;
  }
  if (count == 0) {
    std::printf("no seed: nothing was tried\n");
    return 2;
  }
  std::printf("%lu seeds: nothing lost, nothing wrong\n", count);
  return 0;
}

}  // namespace
}  // namespace verbena::simulator

int main(int argc, char** argv) {
  using namespace verbena::simulator;
  fix_addresses(argv);
  CLI::App app{"A server in a simulated world"};
  Plan plan;
  std::string seeds, kept;
  double seconds = 0;
  bool mixed = false, log = false, whole = false;
  add_world(app, plan);
  app.add_option("--seeds", seeds, "FROM..TO, one after another");
  app.add_option("--replay", kept, "before them the worlds of a file: in each line the options of one");
  app.add_option("--seconds", seconds, "begins no seed later than this");
  app.add_flag("--mixed", mixed, "worlds of all kinds in turn: over each engine, without and with scenes");
  app.add_flag("--whole", whole, "a world that fails is not made smaller, and one of --seed runs in this process");
  app.add_flag("--log", log, "the server's errors, too: a crashing disk leaves many");
  CLI11_PARSE(app, argc, argv);
  verbena::log::set_level(verbena::log::Level::error);
  if (!log && std::freopen("/dev/null", "w", stderr) == nullptr) return 2;
  const std::vector<Plan> worlds = mixed ? kinds() : std::vector{plan};
  if (!kept.empty() && !replay(kept, !whole)) return 1;
  const size_t dots = seeds.find("..");
  if (seconds > 0 && seeds.empty()) {
    if (app.count("--seed") == 0) plan.seed = static_cast<uint64_t>(std::time(nullptr)) * 1000;
    return run_seeds(worlds, plan.seed, UINT64_MAX, seconds, !whole);
  }
  if (dots == std::string::npos && !kept.empty()) return 0;
  if (dots == std::string::npos) return whole ? run_seed(plan) : static_cast<int>(!held(plan, /*shrinks=*/true));
  return run_seeds(worlds, std::stoull(seeds), std::stoull(seeds.substr(dots + 2)), seconds, !whole);
}
