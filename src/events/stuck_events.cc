#include "events/stuck_events.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/hex.h"

namespace verbena::events {
namespace {

using Json = nlohmann::json;

std::string text_at(const Json& json, const char* pointer) {
  const Json::json_pointer at(pointer);
  return json.contains(at) && json[at].is_string() ? json[at].get<std::string>() : std::string();
}

}  // namespace

void describe_record(const std::string& record, StuckEvent& into) {
  const Json json = Json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return;
  into.bucket_name = text_at(json, "/Records/0/s3/bucket/name");
  into.key = text_at(json, "/Records/0/s3/object/key");
  into.happened = text_at(json, "/Records/0/eventName");
  if (!into.happened.empty()) return;
  into.bucket_name = text_at(json, "/Bucket");
  into.happened = text_at(json, "/Event");
}

std::string name_of_stuck(const StuckEvent& stuck) { return fmt::format("{:x}-{:x}", stuck.bucket, stuck.event); }

std::optional<std::pair<uint64_t, uint64_t>> parse_stuck_name(std::string_view name) {
  const size_t dash = name.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto bucket = parse_hex(name.substr(0, dash)), event = parse_hex(name.substr(dash + 1));
  if (!bucket || !event) return std::nullopt;
  return std::pair(*bucket, *event);
}

void StuckEvents::failed(uint64_t bucket, const store::QueuedEvent& event, Failure failure, int64_t now_us) {
  const std::lock_guard lock(mutex_);
  auto known = stuck_.find(bucket);
  if (known == stuck_.end() && stuck_.size() == kept_max) return;
  if (known == stuck_.end() || known->second.event != event.id) {
    StuckEvent made{.bucket = bucket, .event = event.id, .since_us = now_us};
    describe_record(event.record, made);
    known = stuck_.insert_or_assign(bucket, std::move(made)).first;
  }
  known->second.refused = failure.refused;
  known->second.why = std::move(failure.why);
  ++known->second.tries;
}

void StuckEvents::moved_on(uint64_t bucket, uint64_t up_to) {
  const std::lock_guard lock(mutex_);
  const auto known = stuck_.find(bucket);
  if (known != stuck_.end() && known->second.event <= up_to) stuck_.erase(known);
}

void StuckEvents::clear() {
  const std::lock_guard lock(mutex_);
  stuck_.clear();
}

bool StuckEvents::has(uint64_t bucket, uint64_t event) const {
  const std::lock_guard lock(mutex_);
  const auto known = stuck_.find(bucket);
  return known != stuck_.end() && known->second.event == event;
}

std::vector<StuckEvent> StuckEvents::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<StuckEvent> list;
  for (const auto& [bucket, one] : stuck_) list.push_back(one);
  return list;
}

}  // namespace verbena::events
