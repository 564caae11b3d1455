// The name of a volume's file: its id in 16 hexadecimal digits, and ".volume".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace verbena::store::local {

std::string volume_file_name(uint64_t id);
std::optional<uint64_t> parse_volume_file_name(std::string_view name);

}  // namespace verbena::store::local
