// JSON from outside, read so that no two readers can see two things in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::sign_in {

// nullopt: no JSON object, deeper than `depth_max` (found before anything is built), a name twice in one object, or a
// text with a NUL.
std::optional<nlohmann::json> read_strict_object(std::string_view text, int depth_max);

// Empty: there is no such member, or it is no text.
std::string text_of(const nlohmann::json& object, const char* name);

}  // namespace verbena::sign_in
