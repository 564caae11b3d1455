#include "sign_in/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

namespace verbena::sign_in {
namespace {

using Json = nlohmann::json;

// As long as the text is JSON, brackets count as in the parser; where it is not, the parser stops.
bool nests_deeper(std::string_view text, int depth_max) {
  int depth = 0;
  bool inside = false;  // of a string
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (inside) {
      if (c == '\\') ++i;
      if (c == '"') inside = false;
    } else if (c == '"') {
      inside = true;
    } else if (c == '{' || c == '[') {
      if (++depth > depth_max) return true;
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return false;
}

}  // namespace

std::string text_of(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<Json> read_strict_object(std::string_view text, int depth_max) {
  if (nests_deeper(text, depth_max)) return std::nullopt;
  bool sound = true;
  std::vector<std::set<std::string>> names;
  const auto watch = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) names.emplace_back();
    if (event == Json::parse_event_t::object_end) names.pop_back();
    const bool name = event == Json::parse_event_t::key;
    if (name && !names.back().insert(parsed.get<std::string>()).second) sound = false;
    const bool text_there = (name || event == Json::parse_event_t::value) && parsed.is_string();
    if (text_there && parsed.get_ref<const std::string&>().find('\0') != std::string::npos) sound = false;
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (!sound || json.is_discarded() || !json.is_object()) return std::nullopt;
  return json;
}

}  // namespace verbena::sign_in
