#include "iam/parameters.h"

#include <algorithm>

namespace verbena::iam {
namespace {

bool is_alphanumeric(char c) { return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); }

// The length in bytes of the UTF-8 sequence at the start of `text`; 0 for a malformed one (RFC 3629 section 4).
size_t sequence_size(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool outside = (first == 0xed && byte(1) > 0x9f) || (first == 0xf4 && byte(1) > 0x8f);
  return overlong || outside ? 0 : size;
}

}  // namespace

Result<Parameters> Parameters::parse(std::string_view form) {
  auto query = s3::Query::parse(form);
  if (!query) return fail(Errc::validation_error, "The request is not a form of at most 256 parameters.");
  Parameters out;
  out.query_ = std::move(*query);
  std::vector<std::string_view> names;
  for (const auto& [name, value] : out.query_.items()) names.push_back(name);
  std::ranges::sort(names);
  if (std::ranges::adjacent_find(names) != names.end()) {
    return fail(Errc::validation_error, "A parameter is repeated.");
  }
  return out;
}

Result<std::vector<std::string>> Parameters::members(std::string_view list, std::string_view field, size_t max) const {
  std::vector<std::string> out;
  for (size_t i = 1;; ++i) {
    std::string name = std::string(list) + ".member." + std::to_string(i);
    if (!field.empty()) name.append(".").append(field);
    const auto value = get(name);
    if (!value) return out;
    if (out.size() == max) return fail(Errc::validation_error, "A list of the request has too many members.");
    out.emplace_back(*value);
  }
}

std::optional<std::string_view> Parameters::find_unknown(std::string_view known) const {
  for (const auto& [name, value] : query_.items()) {
    if (name.find(' ') == std::string::npos && known.find(" " + name + " ") != std::string_view::npos) continue;
    const size_t dot = name.find('.');
    // SDKs write an empty list as its bare name.
    if (value.empty() && name.find(' ') == std::string::npos &&
        known.find(" " + name + ".* ") != std::string_view::npos) {
      continue;
    }
    const bool in_list = dot != std::string::npos && name.find(' ') == std::string::npos &&
                         known.find(" " + name.substr(0, dot) + ".* ") != std::string_view::npos;
    if (!in_list) return name;
  }
  return std::nullopt;
}

bool is_name(std::string_view text, size_t size_max) {
  return !text.empty() && text.size() <= size_max && std::ranges::all_of(text, [](char c) {
    return is_alphanumeric(c) || std::string_view("_+=,.@-").find(c) != std::string_view::npos;
  });
}

bool is_path(std::string_view text) {
  return !text.empty() && text.size() <= 512 && text.front() == '/' && text.back() == '/' &&
         std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7f; });
}

std::string shown(std::string_view untrusted) {
  constexpr size_t shown_max = 256;
  if (!is_text(untrusted, untrusted.size())) return "(not printable)";
  size_t end = std::min(untrusted.size(), shown_max);
  while (end < untrusted.size() && (static_cast<unsigned char>(untrusted[end]) & 0xc0) == 0x80) --end;
  return std::string(untrusted.substr(0, end));
}

bool is_text(std::string_view text, size_t size_max) {
  if (text.size() > size_max) return false;
  while (!text.empty()) {
    const size_t size = sequence_size(text);
    if (size == 0 || (size == 1 && (static_cast<unsigned char>(text[0]) < 0x20 || text[0] == 0x7f))) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace verbena::iam
