#include "events/deliveries.h"

#include <algorithm>
#include <utility>

#include "events/make_target.h"

namespace verbena::events {

std::unique_ptr<s3::EventQueues> make_event_queues(const Config::Events& config,
                                                   const std::vector<TargetSettings>& targets) {
  std::vector<s3::EventQueues::Target> named;
  for (const auto& target : targets) named.push_back({target.name, type_name(target.type)});
  const s3::EventQueues::Limits limits{
      .events_max = config.queue_max, .bytes_max = config.queue_bytes_max, .drop_when_full = config.drop_when_full};
  return std::make_unique<s3::EventQueues>(std::move(named), limits);
}

std::expected<std::unique_ptr<Deliveries>, std::string> Deliveries::open(store::Store& store, s3::EventQueues& queues,
                                                                         const std::vector<TargetSettings>& targets,
                                                                         const std::function<uint64_t()>& on_duty) {
  std::unique_ptr<Deliveries> all(new Deliveries);
  Delivery::Options options;
  options.on_duty = on_duty;
  for (const auto& target : targets) {
    auto make = [&target] { return make_target(target); };
    auto made = Delivery::make(store, queues, target.name, make, options);
    if (!made) return std::unexpected(made.error());
    if (auto loaded = (*made)->load(); !loaded) {
      return std::unexpected("the events that wait for " + target.name +
                             " cannot be read: " + describe(loaded.error()));
    }
    all->deliveries_.push_back(std::move(*made));
  }
  all->gone_ = std::make_unique<GoneTargets>(store, queues, GoneTargets::Options{.on_duty = on_duty});
  if (auto loaded = all->gone_->load(); !loaded) {
    return std::unexpected("the events that wait for targets which are gone cannot be read: " +
                           describe(loaded.error()));
  }
  return all;
}

void Deliveries::start() {
  for (auto& delivery : deliveries_) delivery->start();
  gone_->start();
}

void Deliveries::stop() {
  gone_->begin_stop();
  for (auto& delivery : deliveries_) delivery->begin_stop();
  for (auto& delivery : deliveries_) delivery->stop();
  gone_->stop();
}

Delivery* Deliveries::find(std::string_view target) const {
  const auto found = std::ranges::find(deliveries_, target, &Delivery::name);
  return found == deliveries_.end() ? nullptr : found->get();
}

}  // namespace verbena::events
