// All deliveries of events, and the operators' interface to them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/config.h"
#include "events/delivery.h"
#include "events/gone_targets.h"
#include "events/target_settings.h"

namespace verbena::events {

class Deliveries {
 public:
  // Counts waiting events: called before the first change. Blocks. `on_duty`: as in Delivery::Options.
  static std::expected<std::unique_ptr<Deliveries>, std::string> open(store::Store& store, s3::EventQueues& queues,
                                                                      const std::vector<TargetSettings>& targets,
                                                                      const std::function<uint64_t()>& on_duty);
  void start();
  void stop();

  Delivery* find(std::string_view target) const;  // null: not configured
  GoneTargets& gone() { return *gone_; }

 private:
  Deliveries() = default;
  std::vector<std::unique_ptr<Delivery>> deliveries_;
  std::unique_ptr<GoneTargets> gone_;
};

// The queues of the configured targets.
std::unique_ptr<s3::EventQueues> make_event_queues(const Config::Events& config,
                                                   const std::vector<TargetSettings>& targets);

}  // namespace verbena::events
