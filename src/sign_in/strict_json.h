// Untrusted JSON, parsed strictly so that no two readers can interpret it differently.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::sign_in {

// nullopt: not a JSON object, deeper than `depth_max` (checked before anything is built), a repeated name in one
// object, or a text with a NUL.
std::optional<nlohmann::json> read_strict_object(std::string_view text, int depth_max);

// Empty: no such member, or not a text.
std::string text_of(const nlohmann::json& object, const char* name);

}  // namespace verbena::sign_in
