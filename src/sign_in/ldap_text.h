// Untrusted text in a directory's names and filters. Sources: RFC 4514 section 2.4 (names), RFC 4515 section 3
// (filters).
#pragma once

#include <string>
#include <string_view>

namespace verbena::sign_in {

// Escapes a value of a name's part ("uid=VALUE,ou=people"), or of a filter's ("(uid=VALUE)"): it cannot end the part.
std::string escape_dn_value(std::string_view text);
std::string escape_filter_value(std::string_view text);

// `form` with every %s as `name` and every %d as `dn`, both escaped already.
std::string fill_form(std::string_view form, std::string_view name, std::string_view dn);
// Whether every '%' is followed by one of `letters`, and the first of them occurs at least once.
bool is_form(std::string_view form, std::string_view letters);

// Whether it is a valid user name: 1 to 255 printable characters of ASCII, without blanks around it or two in a row.
// Directories accept several spellings of one name; this leaves so few of them that wrong passwords can be counted.
bool is_user_name(std::string_view text);

}  // namespace verbena::sign_in
