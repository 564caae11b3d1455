#include "simulator/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace verbena::simulator {

std::string Plan::arguments() const {
  std::string text = fmt::format("--seed {} --operations {}", seed, operations);
  if (engine != Plan{}.engine) text += " --engine " + engine;
  if (native) text += " --native";
  if (clients != Plan{}.clients) text += fmt::format(" --clients {}", clients);
  if (!without.empty()) text += fmt::format(" --without {}", fmt::join(without, ","));
  if (!scenes.empty()) text += fmt::format(" --scenes {}", fmt::join(scenes, ","));
  return text;
}

const std::vector<std::string>& parts() {
  static const std::vector<std::string> all{"faults", "jumps", "passes", "rules",     "damage", "storms",
                                            "stalls", "plain", "other",  "versioned", "locked", "folder"};
  return all;
}

const std::vector<std::string>& scene_names() {
  static const std::vector<std::string> all{"keys",        "races",   "quotas",  "buckets", "events",
                                            "suspensions", "lasting", "bounded", "memory",  "blocks"};
  return all;
}

std::vector<Plan> kinds() {
  const std::vector<std::string> scenes{"keys", "races", "quotas", "buckets", "events", "suspensions", "lasting"};
  std::vector<std::string> of_local = scenes;
  of_local.insert(of_local.end(), {"bounded", "memory"});  // over RADOS a bound is refused, and all is durable
  std::vector<Plan> all{{.operations = 2000},
                        {.operations = 1000, .scenes = of_local},
                        {.operations = 1000, .engine = "rados"},
                        {.operations = 500, .engine = "rados", .scenes = scenes}};
  // Seeds of the other four have the hot tier over the local engine (make_engine), which excludes `bounded`.
  for (size_t at = 0; at < 4; ++at) std::erase(all.emplace_back(Plan(all[at])).scenes, "bounded");
  return all;
}

// Another plan makes another world of the same seed: some seeds of it are tried.
Plan shrink(Plan plan, uint64_t failed_after, const std::function<std::optional<uint64_t>(const Plan&)>& fails,
            const std::function<bool()>& has_time) {
  constexpr uint64_t tries = 12;
  const auto take = [&](Plan smaller) {
    const uint64_t seed = smaller.seed;
    smaller.operations = failed_after;
    for (uint64_t i = 0; i < tries && has_time(); ++i) {
      smaller.seed = seed + i;
      const auto after = fails(smaller);
      if (!after || *after > failed_after) continue;
      failed_after = *after;
      plan = smaller;
      return;
    }
  };
  plan.operations = failed_after;
  for (const std::string& part : parts()) {
    Plan smaller = plan;
    smaller.without.push_back(part);
    take(smaller);
  }
  const auto scenes = plan.scenes;
  for (const std::string& scene : scenes) {
    Plan smaller = plan;
    std::erase(smaller.scenes, scene);
    take(smaller);
  }
  for (const int clients : {1, 2, 3}) {
    if (clients >= plan.clients) break;
    Plan smaller = plan;
    smaller.clients = clients;
    take(smaller);
  }
  for (uint64_t before = failed_after + 1; failed_after < before;) {
    before = failed_after;
    Plan other = plan;
    ++other.seed;
    take(other);
  }
  plan.operations = failed_after;
  return plan;
}

}  // namespace verbena::simulator
