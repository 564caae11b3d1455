#include "events/waves.h"

#include <nlohmann/json.hpp>
#include <set>

namespace verbena::events {
namespace {

using Json = nlohmann::json;

std::string text_at(const Json& json, const Json::json_pointer& where) {
  return json.contains(where) && json.at(where).is_string() ? json.at(where).get<std::string>() : std::string();
}

}  // namespace

std::string key_of_event(std::string_view record) {
  static const Json::json_pointer bucket("/Records/0/s3/bucket/name"), key("/Records/0/s3/object/key");
  static const Json::json_pointer tested("/Bucket");
  const Json json = Json::parse(record, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  if (!json.contains("Records")) return text_at(json, tested);
  return text_at(json, bucket) + "/" + text_at(json, key);
}

std::vector<std::string> keys_of_events(const std::vector<std::string>& records) {
  std::vector<std::string> keys;
  for (const std::string& record : records) keys.push_back(key_of_event(record));
  return keys;
}

size_t end_of_wave(const std::vector<std::string>& keys, size_t from) {
  std::set<std::string_view> seen;
  while (from < keys.size() && seen.insert(keys[from]).second) ++from;
  return from;
}

}  // namespace verbena::events
