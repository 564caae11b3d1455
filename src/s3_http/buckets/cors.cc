#include "s3_http/buckets/cors.h"

#include <algorithm>
#include <array>

#include "base/decimal.h"
#include "base/text.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

constexpr size_t cors_rules_max = 100;
constexpr size_t id_bytes_max = 255;
constexpr ptrdiff_t requested_headers_max = 100;
constexpr std::array<std::string_view, 5> methods = {"GET", "PUT", "POST", "DELETE", "HEAD"};

// These are returned in headers: refuses characters that could end one.
bool is_visible(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) > 0x20 && c != 0x7f; });
}

bool matches(std::string_view pattern, std::string_view text) {
  const size_t star = pattern.find('*');
  if (star == std::string_view::npos) return pattern == text;
  const std::string_view before = pattern.substr(0, star), after = pattern.substr(star + 1);
  return text.size() >= before.size() + after.size() && text.starts_with(before) && text.ends_with(after);
}

std::vector<std::string> split_names(std::string_view list) {
  std::vector<std::string> names;
  while (!list.empty()) {
    const size_t cut = std::min(list.find(','), list.size());
    std::string_view one = list.substr(0, cut);
    list.remove_prefix(std::min(cut + 1, list.size()));
    while (one.starts_with(' ') || one.starts_with('\t')) one.remove_prefix(1);
    while (one.ends_with(' ') || one.ends_with('\t')) one.remove_suffix(1);
    if (!one.empty()) names.push_back(lower(one));
  }
  return names;
}

std::string join(const std::vector<std::string>& parts) {
  std::string out;
  for (const auto& part : parts) {
    if (!out.empty()) out += ", ";
    out += part;
  }
  return out;
}

Result<void> read_rule_element(std::string_view name, std::string text, CorsRule& rule) {
  const auto stars = std::ranges::count(text, '*');
  if (name == "ID") {
    if (text.size() > id_bytes_max) return fail(Errc::malformed_xml, "xml: ID");
    rule.id = std::move(text);
  } else if (name == "AllowedMethod") {
    if (std::ranges::find(methods, text) == methods.end()) {
      return fail(Errc::invalid_request, "Found unsupported HTTP method in CORS config.");
    }
    rule.methods.push_back(std::move(text));
  } else if (name == "AllowedOrigin") {
    if (!is_visible(text)) return fail(Errc::malformed_xml, "xml: AllowedOrigin");
    if (stars > 1) return fail(Errc::invalid_request, "AllowedOrigin can not have more than one wildcard.");
    rule.origins.push_back(std::move(text));
  } else if (name == "AllowedHeader") {
    if (!is_visible(text)) return fail(Errc::malformed_xml, "xml: AllowedHeader");
    if (stars > 1) return fail(Errc::invalid_request, "AllowedHeader can not have more than one wildcard.");
    rule.header_names.add(text);
    rule.headers.push_back(std::move(text));
  } else if (name == "ExposeHeader") {
    if (!is_visible(text)) return fail(Errc::malformed_xml, "xml: ExposeHeader");
    if (stars > 0) return fail(Errc::invalid_request, "ExposeHeader can not have a wildcard.");
    rule.exposed.push_back(std::move(text));
  } else if (name == "MaxAgeSeconds") {
    const auto seconds = parse_decimal(text);
    if (!seconds || *seconds > INT32_MAX) return fail(Errc::malformed_xml, "xml: MaxAgeSeconds");
    rule.max_age_s = static_cast<int64_t>(*seconds);
  } else {
    return fail(Errc::malformed_xml, "xml: CORSRule");
  }
  return {};
}

Result<CorsRule> parse_cors_rule(const pugi::xml_node& node) {
  CorsRule rule;
  for (const auto& child : node.children()) {
    if (child.type() == pugi::node_element) VB_TRY(read_rule_element(child.name(), trimmed_text(child), rule));
  }
  rule.header_names.ready();
  if (rule.methods.empty() || rule.origins.empty()) return fail(Errc::malformed_xml, "xml: CORSRule");
  return rule;
}

bool allows(const CorsRule& rule, const CorsQuestion& question, const std::vector<std::string>& headers) {
  const auto origin = [&](const std::string& pattern) { return matches(pattern, question.origin); };
  if (std::ranges::find(rule.methods, question.method) == rule.methods.end()) return false;
  if (std::ranges::none_of(rule.origins, origin)) return false;
  return std::ranges::all_of(headers, [&](const std::string& name) { return rule.header_names.has(name); });
}

}  // namespace

void CorsHeaderNames::add(std::string_view pattern) {
  std::string lowered = lower(pattern);
  const size_t star = lowered.find('*');
  if (star == std::string::npos) {
    exact_.push_back(std::move(lowered));
  } else {
    starred_.emplace_back(lowered.substr(0, star), lowered.substr(star + 1));
  }
}

void CorsHeaderNames::ready() {
  std::ranges::sort(exact_);
  std::ranges::sort(starred_);
  starred_.erase(std::ranges::unique(starred_).begin(), starred_.end());
}

bool CorsHeaderNames::has(std::string_view lower_name) const {
  if (std::ranges::binary_search(exact_, lower_name)) return true;
  return std::ranges::any_of(starred_, [&](const auto& one) {
    const auto& [before, after] = one;
    return lower_name.size() >= before.size() + after.size() && lower_name.starts_with(before) &&
           lower_name.ends_with(after);
  });
}

Result<std::vector<CorsRule>> parse_cors(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "CORSConfiguration"));
  std::vector<CorsRule> rules;
  for (const auto& child : root.children()) {
    if (child.type() != pugi::node_element) continue;
    if (std::string_view(child.name()) != "CORSRule" || rules.size() == cors_rules_max) {
      return fail(Errc::malformed_xml, "xml: CORSConfiguration");
    }
    VB_ASSIGN(CorsRule rule, parse_cors_rule(child));
    rules.push_back(std::move(rule));
  }
  if (rules.empty()) return fail(Errc::malformed_xml, "xml: no CORSRule");
  return rules;
}

std::string cors_xml(const std::vector<CorsRule>& rules) {
  XmlWriter xml("CORSConfiguration");
  for (const auto& rule : rules) {
    xml.open("CORSRule");
    if (!rule.id.empty()) xml.element("ID", rule.id);
    for (const auto& method : rule.methods) xml.element("AllowedMethod", method);
    for (const auto& origin : rule.origins) xml.element("AllowedOrigin", origin);
    for (const auto& header : rule.headers) xml.element("AllowedHeader", header);
    for (const auto& header : rule.exposed) xml.element("ExposeHeader", header);
    if (rule.max_age_s) xml.element("MaxAgeSeconds", *rule.max_age_s);
    xml.close();
  }
  return xml.finish();
}

const CorsRule* find_cors_rule(const std::vector<CorsRule>& rules, const CorsQuestion& question) {
  // Preflights are not authenticated: a list longer than any browser's is refused before it is split.
  const std::string_view names = question.headers.value_or("");
  if (std::ranges::count(names, ',') >= requested_headers_max) return nullptr;
  auto headers = split_names(names);
  std::ranges::sort(headers);
  headers.erase(std::ranges::unique(headers).begin(), headers.end());
  const auto found = std::ranges::find_if(rules, [&](const CorsRule& rule) { return allows(rule, question, headers); });
  return found == rules.end() ? nullptr : &*found;
}

Headers cors_headers(const CorsRule& rule, const CorsQuestion& question) {
  Headers headers;
  const bool any = std::ranges::find(rule.origins, "*") != rule.origins.end();
  headers.emplace_back("access-control-allow-origin", any ? "*" : question.origin);
  headers.emplace_back("access-control-allow-methods", join(rule.methods));
  if (question.headers) {
    headers.emplace_back("access-control-allow-headers", join(split_names(*question.headers)));
  }
  if (!rule.exposed.empty()) headers.emplace_back("access-control-expose-headers", join(rule.exposed));
  if (rule.max_age_s) headers.emplace_back("access-control-max-age", std::to_string(*rule.max_age_s));
  if (!any) headers.emplace_back("access-control-allow-credentials", "true");
  headers.emplace_back("vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
  return headers;
}

}  // namespace verbena::s3
