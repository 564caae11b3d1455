// What a stranger typed, put into the names and filters of a directory. Sources: RFC 4514 section 2.4 (names), RFC 4515
// section 3 (filters).
#pragma once

#include <string>
#include <string_view>

namespace verbena::sign_in {

// A value of a name's part ("uid=VALUE,ou=people"), of a filter's ("(uid=VALUE)"): whatever it holds, it stays one.
std::string escape_dn_value(std::string_view text);
std::string escape_filter_value(std::string_view text);

// `form` with every %s as `name` and every %d as `dn`, both escaped already.
std::string fill_form(std::string_view form, std::string_view name, std::string_view dn);
// Whether it has no other '%' than those before one of `letters`, and the first of them at least once.
bool is_form(std::string_view form, std::string_view letters);

// A name that people sign in by: 1 to 255 printable characters of ASCII, without blanks around it or two in a row.
// Directories take several spellings for one name; so few of them are left that guesses at a password can be counted.
bool is_user_name(std::string_view text);

}  // namespace verbena::sign_in
