#include "s3/documents/lifecycle_rules.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/bytes.h"
#include "base/date.h"
#include "base/decimal.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

constexpr size_t rules_max = 1000, rule_id_bytes_max = 255, prefix_bytes_max = 1024, keep_max = 100;
constexpr int64_t day_us = 86'400'000'000;

Result<uint32_t> positive(const pugi::xml_node& node, const char* message) {
  const std::string text = trimmed_text(node);
  const auto value = parse_decimal(text.starts_with('-') ? "0" : text);
  if (!value || *value > INT32_MAX) return fail(Errc::malformed_xml, "xml: number");
  if (*value == 0) return fail(Errc::invalid_argument, message);
  return static_cast<uint32_t>(*value);
}

Result<uint64_t> size_limit(const pugi::xml_node& node) {
  const auto value = parse_decimal(trimmed_text(node));
  if (!value) return fail(Errc::malformed_xml, "xml: object size");
  return *value;
}

Result<void> parse_tag(const pugi::xml_node& node, LifecycleFilter& filter) {
  VB_TRY(check_children(node, {"Key", "Value"}));
  const std::string key = text_of(node.child("Key"));
  if (key.empty() || key.size() > 512) return fail(Errc::malformed_xml, "xml: Tag");
  filter.tags.emplace_back(key, text_of(node.child("Value")));
  return {};
}

// The longer of two prefixes that a key must have.
Result<void> add_prefix(std::string prefix, LifecycleFilter& filter) {
  if (!prefix.starts_with(filter.prefix) && !filter.prefix.starts_with(prefix)) {
    return fail(Errc::malformed_xml, "xml: Prefix");
  }
  if (prefix.size() > filter.prefix.size()) filter.prefix = std::move(prefix);
  filter.has_prefix = true;
  return {};
}

// The conditions of a Filter, or of the And in it.
Result<size_t> parse_conditions(const pugi::xml_node& node, LifecycleFilter& filter) {
  size_t conditions = 0;
  for (const auto& child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    ++conditions;
    const std::string_view name = child.name();
    if (name == "And" && std::string_view(node.name()) == "Filter") continue;
    if (name == "Prefix") {
      VB_TRY(add_prefix(text_of(child), filter));
    } else if (name == "Tag") {
      VB_TRY(parse_tag(child, filter));
    } else if (name == "ObjectSizeGreaterThan" && !filter.size_above) {
      VB_ASSIGN(filter.size_above, size_limit(child));
    } else if (name == "ObjectSizeLessThan" && !filter.size_below) {
      VB_ASSIGN(filter.size_below, size_limit(child));
    } else {
      return fail(Errc::malformed_xml, "xml: Filter");
    }
  }
  return conditions;
}

Result<void> check_filter(const LifecycleFilter& filter) {
  if (filter.prefix.size() > prefix_bytes_max) {
    return fail(Errc::invalid_request, "The maximum size of a prefix is 1024.");
  }
  std::set<std::string_view> keys;
  for (const auto& [key, value] : filter.tags) {
    if (!keys.insert(key).second) return fail(Errc::invalid_request, "Duplicate Tag Keys are not allowed.");
  }
  if (filter.size_above && filter.size_below && *filter.size_above >= *filter.size_below) {
    return fail(Errc::invalid_request, "ObjectSizeLessThan must be larger than ObjectSizeGreaterThan.");
  }
  return {};
}

Result<void> parse_filter(const pugi::xml_node& rule, LifecycleFilter& filter) {
  const auto legacy = rule.child("Prefix"), node = rule.child("Filter");
  if (!legacy == !node) return fail(Errc::malformed_xml, "xml: either Prefix or Filter");
  if (legacy) {
    filter.legacy = filter.has_prefix = true;
    filter.prefix = text_of(legacy);
    return check_filter(filter);
  }
  // AWS requires one condition, or an And of several. Several without an And are joined, as in Ceph RGW.
  VB_TRY(parse_conditions(node, filter));
  if (const auto both = node.child("And")) {
    VB_ASSIGN(const size_t conditions, parse_conditions(both, filter));
    if (conditions < 2) return fail(Errc::malformed_xml, "xml: And");
  }
  return check_filter(filter);
}

Result<void> parse_expiration(const pugi::xml_node& node, LifecycleRule& rule) {
  VB_TRY(check_children(node, {"Days", "Date", "ExpiredObjectDeleteMarker"}));
  const auto days = node.child("Days"), date = node.child("Date"), marker = node.child("ExpiredObjectDeleteMarker");
  if (!days + !date + !marker != 2) return fail(Errc::malformed_xml, "xml: Expiration");
  if (days) {
    VB_ASSIGN(rule.days, positive(days, "'Days' for Expiration action must be a positive integer."));
  } else if (date) {
    rule.date_us = parse_iso8601(trimmed_text(date));
    if (!rule.date_us) return fail(Errc::malformed_xml, "xml: Date");
    if (*rule.date_us % day_us != 0) return fail(Errc::invalid_argument, "'Date' must be at midnight GMT.");
  } else {
    const std::string value = trimmed_text(marker);
    if (value != "true" && value != "false") return fail(Errc::malformed_xml, "xml: ExpiredObjectDeleteMarker");
    rule.expired_marker = value == "true";
    if (rule.expired_marker && !rule.filter.tags.empty()) {
      return fail(Errc::invalid_request, "ExpiredObjectDeleteMarker cannot be specified with Tags.");
    }
  }
  return {};
}

Result<void> parse_noncurrent(const pugi::xml_node& node, LifecycleRule& rule) {
  VB_TRY(check_children(node, {"NoncurrentDays", "NewerNoncurrentVersions"}));
  if (!node.child("NoncurrentDays")) return fail(Errc::malformed_xml, "xml: NoncurrentDays");
  VB_ASSIGN(rule.noncurrent_days,
            positive(node.child("NoncurrentDays"),
                     "'NoncurrentDays' for NoncurrentVersionExpiration action must be a positive integer."));
  if (const auto keep = node.child("NewerNoncurrentVersions")) {
    constexpr const char* message = "'NewerNoncurrentVersions' must be an integer between 1 and 100.";
    VB_ASSIGN(rule.noncurrent_keep, positive(keep, message));
    if (rule.noncurrent_keep > keep_max) return fail(Errc::invalid_argument, message);
  }
  return {};
}

Result<void> parse_abort(const pugi::xml_node& node, LifecycleRule& rule) {
  VB_TRY(check_children(node, {"DaysAfterInitiation"}));
  VB_ASSIGN(rule.abort_days,
            positive(node.child("DaysAfterInitiation"),
                     "'DaysAfterInitiation' for AbortIncompleteMultipartUpload action must be a positive integer."));
  if (!rule.filter.tags.empty()) {
    return fail(Errc::invalid_request, "AbortIncompleteMultipartUpload cannot be specified with Tags.");
  }
  if (rule.filter.size_above || rule.filter.size_below) {
    return fail(Errc::invalid_request, "AbortIncompleteMultipartUpload cannot be specified with object sizes.");
  }
  return {};
}

Result<LifecycleRule> parse_lifecycle_rule(const pugi::xml_node& node) {
  if (node.child("Transition") || node.child("NoncurrentVersionTransition")) {
    return fail(Errc::invalid_argument, "This server has one storage class, so there is nothing to transition to.");
  }
  VB_TRY(check_children(node, {"ID", "Status", "Prefix", "Filter", "Expiration", "NoncurrentVersionExpiration",
                               "AbortIncompleteMultipartUpload"}));
  LifecycleRule rule;
  rule.id = text_of(node.child("ID"));
  if (rule.id.size() > rule_id_bytes_max) {
    return fail(Errc::invalid_argument, "ID length should not exceed allowed limit of 255.");
  }
  const std::string status = trimmed_text(node.child("Status"));
  if (status != "Enabled" && status != "Disabled") return fail(Errc::malformed_xml, "xml: Status");
  rule.enabled = status == "Enabled";
  VB_TRY(parse_filter(node, rule.filter));
  const auto expiration = node.child("Expiration"), noncurrent = node.child("NoncurrentVersionExpiration"),
             abort = node.child("AbortIncompleteMultipartUpload");
  if (!expiration && !noncurrent && !abort) {
    return fail(Errc::invalid_request, "At least one action needs to be specified in a rule.");
  }
  if (expiration) VB_TRY(parse_expiration(expiration, rule));
  if (noncurrent) VB_TRY(parse_noncurrent(noncurrent, rule));
  if (abort) VB_TRY(parse_abort(abort, rule));
  return rule;
}

std::string random_id() {
  std::byte bytes[18];
  fill_random(bytes);
  return to_hex(bytes);
}

void write_filter(XmlWriter& xml, const LifecycleFilter& filter) {
  if (filter.legacy) {
    xml.element("Prefix", filter.prefix);
    return;
  }
  const size_t conditions = (filter.has_prefix ? 1u : 0u) + filter.tags.size() + (filter.size_above ? 1u : 0u) +
                            (filter.size_below ? 1u : 0u);
  xml.open("Filter");
  if (conditions > 1) xml.open("And");
  if (filter.has_prefix) xml.element("Prefix", filter.prefix);
  for (const auto& [key, value] : filter.tags) {
    xml.open("Tag");
    xml.element("Key", key);
    xml.element("Value", value);
    xml.close();
  }
  if (filter.size_above) xml.element("ObjectSizeGreaterThan", *filter.size_above);
  if (filter.size_below) xml.element("ObjectSizeLessThan", *filter.size_below);
  if (conditions > 1) xml.close();
  xml.close();
}

void write_actions(XmlWriter& xml, const LifecycleRule& rule) {
  if (rule.days || rule.date_us || rule.expired_marker) {
    xml.open("Expiration");
    if (rule.days) xml.element("Days", *rule.days);
    if (rule.date_us) xml.element("Date", format_iso8601(*rule.date_us));
    if (rule.expired_marker) xml.element("ExpiredObjectDeleteMarker", true);
    xml.close();
  }
  if (rule.noncurrent_days) {
    xml.open("NoncurrentVersionExpiration");
    xml.element("NoncurrentDays", *rule.noncurrent_days);
    if (rule.noncurrent_keep != 0) xml.element("NewerNoncurrentVersions", rule.noncurrent_keep);
    xml.close();
  }
  if (rule.abort_days) {
    xml.open("AbortIncompleteMultipartUpload");
    xml.element("DaysAfterInitiation", *rule.abort_days);
    xml.close();
  }
}

}  // namespace

bool LifecycleRule::applies(std::string_view key, const store::ObjectInfo& info) const {
  if (!key.starts_with(filter.prefix)) return false;
  if (filter.size_above && info.size <= *filter.size_above) return false;
  if (filter.size_below && info.size >= *filter.size_below) return false;
  return std::ranges::all_of(filter.tags, [&](const auto& tag) { return std::ranges::count(info.tags, tag) != 0; });
}

Result<std::vector<LifecycleRule>> parse_lifecycle(std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "LifecycleConfiguration"));
  std::vector<LifecycleRule> rules;
  std::set<std::string> ids;
  for (const auto& child : root.children()) {
    if (child.type() != pugi::node_element) continue;
    if (std::string_view(child.name()) != "Rule" || rules.size() == rules_max) {
      return fail(Errc::malformed_xml, "xml: LifecycleConfiguration");
    }
    VB_ASSIGN(LifecycleRule rule, parse_lifecycle_rule(child));
    if (rule.id.empty()) rule.id = random_id();
    if (!ids.insert(rule.id).second) return fail(Errc::invalid_argument, "Rule ID must be unique.");
    rules.push_back(std::move(rule));
  }
  if (rules.empty()) return fail(Errc::malformed_xml, "xml: no rules");
  return rules;
}

std::string lifecycle_xml(const std::vector<LifecycleRule>& rules) {
  XmlWriter xml("LifecycleConfiguration");
  for (const LifecycleRule& rule : rules) {
    xml.open("Rule");
    xml.element("ID", rule.id);
    write_filter(xml, rule.filter);
    xml.element("Status", rule.enabled ? "Enabled" : "Disabled");
    write_actions(xml, rule);
    xml.close();
  }
  return xml.finish();
}

int64_t due_us(int64_t since_us, uint32_t days, int64_t day_s) {
  const int64_t at_us = since_us + static_cast<int64_t>(days) * day_s * 1'000'000;
  if (day_s != 86'400) return at_us;
  return (at_us + day_us - 1) / day_us * day_us;
}

std::optional<Expiry> find_expiry(const std::vector<LifecycleRule>& rules, std::string_view key,
                                  const store::ObjectInfo& info, int64_t day_s) {
  std::optional<Expiry> first;
  for (const LifecycleRule& rule : rules) {
    if (!rule.enabled || (!rule.days && !rule.date_us) || !rule.applies(key, info)) continue;
    const int64_t at_us = rule.days ? due_us(info.modified_us, *rule.days, day_s) : *rule.date_us;
    if (!first || at_us < first->at_us) first = Expiry{at_us, &rule};
  }
  return first;
}

}  // namespace verbena::s3
