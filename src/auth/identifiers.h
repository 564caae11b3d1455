// Generated names: access keys, secrets, unique ids.
#pragma once

#include <string>
#include <string_view>

namespace verbena::auth {

// Characters of `alphabet`, each equally likely, from the kernel's random source.
std::string random_text(std::string_view alphabet, size_t length);

std::string make_access_key_id();     // "AKIA..."
std::string make_temporary_key_id();  // "ASIA..."
std::string make_secret_key();        // 40 letters and digits
std::string make_account_id();        // 12 digits
std::string make_canonical_id();      // 64 hexadecimal digits
std::string make_id(
    std::string_view kind);  // "AIDA" (user), "AGPA" (group), "AROA" (role), "ANPA" (policy) and 17 more

// AWS's limits: 3 to 128 printable characters without '/'; 8 to 256 printable ones.
bool is_access_key(std::string_view text);
bool is_secret_key(std::string_view text);

}  // namespace verbena::auth
