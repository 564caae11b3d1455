#include "iam/parameters.h"

#include <algorithm>
#include <map>

#include "base/decimal.h"

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

// Calls `use` with each part of "a|b|c", until it returns true. Whether it did.
template <class Use>
bool any_part(std::string_view text, char separator, Use use) {
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (use(text.substr(0, end))) return true;
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return false;
}

bool is_part(std::string_view text, char separator, std::string_view wanted) {
  return !wanted.empty() && any_part(text, separator, [&](std::string_view part) { return part == wanted; });
}

// The fields that a list's members have, "Key|Value"; empty: members are values. nullopt: no such list is known.
std::optional<std::string_view> fields_of(std::string_view known, std::string_view list) {
  constexpr std::string_view members = ".*";
  std::optional<std::string_view> fields;
  any_part(known, ' ', [&](std::string_view word) {
    if (!word.starts_with(list)) return false;
    word.remove_prefix(list.size());
    if (!word.starts_with(members)) return false;
    word.remove_prefix(members.size());
    if (word.starts_with('.')) word.remove_prefix(1);
    fields = word;
    return true;
  });
  return fields;
}

struct Member {
  std::string_view list, field;
  uint64_t number = 0;
};

// "Tags.member.2.Key". A number is written in one way, so that no two names are of one member.
std::optional<Member> read_member(std::string_view name) {
  constexpr std::string_view between = ".member.";
  const size_t at = name.find(between);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = name.substr(at + between.size());
  const size_t dot = std::min(rest.find('.'), rest.size());
  const auto number = parse_decimal(rest.substr(0, dot));
  if (!number || rest.starts_with('0') || dot + 1 == rest.size()) return std::nullopt;
  return Member{name.substr(0, at), rest.substr(std::min(dot + 1, rest.size())), *number};
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

// A member that is ignored may be a limit: of a list that begins with its second member nothing would be read.
std::optional<std::string> Parameters::find_fault(std::string_view known) const {
  std::map<std::pair<std::string_view, std::string_view>, size_t> counts;  // of the members of a list, by field
  for (const auto& [name, value] : query_.items()) {
    if (const auto member = read_member(name)) ++counts[{member->list, member->field}];
  }
  for (const auto& [name, value] : query_.items()) {
    if (name == "Action" || name == "Version") continue;
    if (name.find('*') == std::string::npos && is_part(known, ' ', name)) continue;
    if (value.empty() && fields_of(known, name)) continue;  // SDKs write an empty list as its bare name
    const auto member = read_member(name);
    const auto fields = member ? fields_of(known, member->list) : std::nullopt;
    const bool served = fields && (fields->empty() ? member->field.empty() : is_part(*fields, '|', member->field));
    if (!served) return "The parameter " + shown(name) + " is not served here.";
    // Names differ, so as many members as the highest number are all from 1 on.
    if (member->number > counts[{member->list, member->field}]) {
      return "The members of " + std::string(member->list) + " must be numbered from 1 without a gap.";
    }
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
