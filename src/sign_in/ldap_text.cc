#include "sign_in/ldap_text.h"

#include <algorithm>

namespace verbena::sign_in {
namespace {

constexpr size_t user_name_bytes_max = 255;

bool is_harmless(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

// Both text forms allow any byte as a number. So all bytes with a special meaning in either are written that way.
std::string escape(std::string_view text) {
  static constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const char c : text) {
    if (is_harmless(c)) {
      out += c;
    } else {
      const auto byte = static_cast<unsigned char>(c);
      out += {'\\', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

}  // namespace

std::string escape_dn_value(std::string_view text) { return escape(text); }
std::string escape_filter_value(std::string_view text) { return escape(text); }

std::string fill_form(std::string_view form, std::string_view name, std::string_view dn) {
  std::string out;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '%' || i + 1 == form.size()) {
      out += form[i];
    } else {
      out += form[++i] == 'd' ? dn : name;
    }
  }
  return out;
}

bool is_form(std::string_view form, std::string_view letters) {
  bool first = false;
  for (size_t i = 0; i < form.size(); ++i) {
    if (form[i] != '%') continue;
    if (++i == form.size() || letters.find(form[i]) == std::string_view::npos) return false;
    first = first || form[i] == letters.front();
  }
  return first;
}

bool is_user_name(std::string_view text) {
  const auto printable = [](char c) { return c >= 0x20 && c < 0x7f; };
  return !text.empty() && text.size() <= user_name_bytes_max && std::ranges::all_of(text, printable) &&
         text.front() != ' ' && text.back() != ' ' && text.find("  ") == std::string_view::npos;
}

}  // namespace verbena::sign_in
