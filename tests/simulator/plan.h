// Which world: what a seed alone does not say.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace verbena::simulator {

struct Plan {
  uint64_t seed = 1;
  uint64_t operations = 2000;
  int clients = 6;
  unsigned seconds_max = 100;  // of a processor's time
  std::string engine = "local";
  bool native = false;                 // half of the clients use the native door
  std::vector<std::string> without{};  // of parts()
  std::vector<std::string> scenes{};   // of scene_names(), besides

  bool has(const std::string& part) const { return std::ranges::find(without, part) == without.end(); }
  bool has_scene(const std::string& name) const { return std::ranges::find(scenes, name) != scenes.end(); }
  std::string arguments() const;  // of the simulator
  std::string command() const { return "./dev simulate " + arguments(); }
};

// What a world may be without: its buckets, what befalls it, its lifecycle.
const std::vector<std::string>& parts();
const std::vector<std::string>& scene_names();
// Worlds of each kind, two of each: over each engine, without scenes and with all that it has but `blocks`; over the
// local engine once without `bounded`, for the hot tier.
std::vector<Plan> kinds();

// Of a world that fails a smaller one that fails, too: without parts, with fewer clients and operations. `fails` runs
// one, and says after how many operations it failed.
Plan shrink(Plan plan, uint64_t failed_after, const std::function<std::optional<uint64_t>(const Plan&)>& fails,
            const std::function<bool()>& has_time);

}  // namespace verbena::simulator
