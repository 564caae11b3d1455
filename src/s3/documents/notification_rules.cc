#include "s3/documents/notification_rules.h"

#include <algorithm>
#include <array>
#include <set>

#include "base/bytes.h"
#include "base/hex.h"
#include "base/text.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

using SaidToBe = NotificationRule::Service;

constexpr size_t notification_rules_max = 100, notification_id_max = 255, notification_affix_max = 1024;

struct ServiceForm {
  SaidToBe service;
  const char *element, *arn;
  std::string_view arn_service;
};
constexpr std::array<ServiceForm, 3> service_forms{
    ServiceForm{SaidToBe::topic, "TopicConfiguration", "Topic", "sns"},
    {SaidToBe::queue, "QueueConfiguration", "Queue", "sqs"},
    {SaidToBe::function, "CloudFunctionConfiguration", "CloudFunction", "lambda"}};

// As forms encode, and as events have keys: '+' is a blank (Amazon S3 User Guide, "Configuring event notifications
// using object key name filtering"). Text that is not an escape stands for itself, because values were once stored
// undecoded.
std::string form_decoded(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const bool escape =
        text[i] == '%' && text.size() - i > 2 && hex_value(text[i + 1]) >= 0 && hex_value(text[i + 2]) >= 0;
    if (escape) {
      out += static_cast<char>(hex_value(text[i + 1]) << 4 | hex_value(text[i + 2]));
      i += 2;
    } else {
      out += text[i] == '+' ? ' ' : text[i];
    }
  }
  return out;
}

Result<void> parse_filter_rule(const pugi::xml_node& node, NotificationRule& rule) {
  VB_TRY(check_children(node, {"Name", "Value"}));
  const std::string name = lower(trimmed_text(node.child("Name")));  // AWS accepts "Prefix" too
  if (name != "prefix" && name != "suffix") {
    return fail(Errc::invalid_argument, "filter rule name must be either prefix or suffix.");
  }
  bool& has = name == "prefix" ? rule.has_prefix : rule.has_suffix;
  if (has) {
    return fail(Errc::invalid_argument, "Cannot specify more than one prefix rule or suffix rule in a filter.");
  }
  has = true;
  std::string& encoded = name == "prefix" ? rule.encoded_prefix : rule.encoded_suffix;
  encoded = text_of(node.child("Value"));
  std::string& value = name == "prefix" ? rule.prefix : rule.suffix;
  value = form_decoded(encoded);
  if (value.size() > notification_affix_max) {
    return fail(Errc::invalid_argument, "Size of filter rule value cannot exceed 1024 bytes in UTF-8 representation.");
  }
  return {};
}

Result<void> parse_key_filter(const pugi::xml_node& node, NotificationRule& rule) {
  if (!node) return {};
  VB_TRY(check_children(node, {"S3Key"}));
  for (const auto& child : node.child("S3Key").children()) {
    if (child.type() != pugi::node_element) continue;
    if (std::string_view(child.name()) != "FilterRule") return fail(Errc::malformed_xml, "xml: S3Key");
    VB_TRY(parse_filter_rule(child, rule));
  }
  return {};
}

Result<void> parse_event(const pugi::xml_node& node, NotificationRule& rule) {
  std::string name = trimmed_text(node);
  const auto set = parse_event_name(name);
  if (!set) return fail(Errc::invalid_argument, "The event is not supported for notifications.");
  rule.set |= *set;
  if (std::ranges::find(rule.events, name) == rule.events.end()) rule.events.push_back(std::move(name));
  return {};
}

// All elements except events may occur once.
Result<void> check_rule_children(const pugi::xml_node& node, std::string_view arn) {
  std::set<std::string_view> seen;
  for (const auto& child : node.children()) {
    if (child.type() != pugi::node_element) continue;
    const std::string_view name = child.name();
    if (name == "Event") continue;
    const bool known = name == "Id" || name == "Filter" || name == arn;
    if (!known || !seen.insert(name).second) return fail(Errc::malformed_xml, "xml: notification configuration");
  }
  return {};
}

Result<NotificationRule> parse_notification_rule(const pugi::xml_node& node, const ServiceForm& form,
                                                 std::optional<std::string_view> region) {
  VB_TRY(check_rule_children(node, form.arn));
  NotificationRule rule;
  rule.service = form.service;
  rule.id = trimmed_text(node.child("Id"));
  if (rule.id.size() > notification_id_max) return fail(Errc::invalid_argument, "The Id is too long.");
  rule.arn = trimmed_text(node.child(form.arn));
  const auto target = parse_target_arn(rule.arn, region);
  if (!target) return fail(Errc::invalid_argument, "The ARN is not well formed, or of no target of this server.");
  rule.target = target->name;
  rule.target_type = target->type;
  for (const auto& event : node.children("Event")) VB_TRY(parse_event(event, rule));
  if (rule.set == 0) return fail(Errc::malformed_xml, "xml: no Event");
  VB_TRY(parse_key_filter(node.child("Filter"), rule));
  return rule;
}

// Several targets may get an event of one change: at AWS a topic would distribute it, and there are no topics here.
bool overlap(const NotificationRule& a, const NotificationRule& b) {
  if (a.target != b.target) return false;
  const bool prefixes = a.prefix.starts_with(b.prefix) || b.prefix.starts_with(a.prefix);
  const bool suffixes = a.suffix.ends_with(b.suffix) || b.suffix.ends_with(a.suffix);
  return (a.set & b.set) != 0 && prefixes && suffixes;
}

Result<void> check_rules(const NotificationRules& rules) {
  for (size_t i = 0; i < rules.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (rules[i].id == rules[j].id) {
        return fail(Errc::invalid_argument, "Same ID used for multiple configurations. IDs must be unique.");
      }
      if (overlap(rules[i], rules[j])) {
        return fail(Errc::invalid_argument,
                    "Configuration is ambiguously defined. Cannot have overlapping suffixes in two rules if the "
                    "prefixes are overlapping for the same event type.");
      }
    }
  }
  return {};
}

std::string made_up_id() {
  std::byte bytes[12];
  fill_random(bytes);
  return to_hex(bytes);
}

void write_filter_rule(XmlWriter& xml, const char* name, const std::string& value) {
  xml.open("FilterRule");
  xml.element("Name", name);
  xml.element("Value", value);
  xml.close();
}

void write_rule(XmlWriter& xml, const NotificationRule& rule) {
  const ServiceForm& form = *std::ranges::find(service_forms, rule.service, &ServiceForm::service);
  xml.open(form.element);
  xml.element("Id", rule.id);
  xml.element(form.arn, rule.arn);
  for (const std::string& event : rule.events) xml.element("Event", event);
  if (rule.has_prefix || rule.has_suffix) {
    xml.open("Filter");
    xml.open("S3Key");
    if (rule.has_prefix) write_filter_rule(xml, "Prefix", rule.encoded_prefix);
    if (rule.has_suffix) write_filter_rule(xml, "Suffix", rule.encoded_suffix);
    xml.close();
    xml.close();
  }
  xml.close();
}

}  // namespace

std::optional<TargetArn> parse_target_arn(std::string_view arn, std::optional<std::string_view> region) {
  std::array<std::string_view, 6> parts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const bool last = i + 1 == parts.size();
    const size_t end = last ? arn.size() : arn.find(':');
    if (end == std::string_view::npos) return std::nullopt;
    parts[i] = arn.substr(0, end);
    if (!last) arn.remove_prefix(end + 1);
  }
  const bool known_service =
      std::ranges::any_of(service_forms, [&](const auto& f) { return f.arn_service == parts[2]; });
  if (parts[0] != "arn" || parts[1] != "verbena" || !known_service) return std::nullopt;
  if (region && !parts[3].empty() && parts[3] != *region) return std::nullopt;
  if (parts[4].empty() || parts[5].empty() || parts[5].find(':') != std::string_view::npos) return std::nullopt;
  return TargetArn{std::string(parts[4]), std::string(parts[5])};
}

Result<NotificationRules> parse_notification(std::string_view text, std::optional<std::string_view> region) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "NotificationConfiguration"));
  NotificationRules rules;
  for (const auto& child : root.children()) {
    if (child.type() != pugi::node_element) continue;
    const std::string_view name = child.name();
    if (name == "EventBridgeConfiguration") return fail(Errc::not_implemented, "EventBridge is not implemented.");
    const auto form =
        std::ranges::find(service_forms, name, [](const ServiceForm& f) { return std::string_view(f.element); });
    if (form == service_forms.end()) return fail(Errc::malformed_xml, "xml: NotificationConfiguration");
    if (rules.size() == notification_rules_max) {
      return fail(Errc::invalid_argument, "A bucket has at most 100 notification configurations.");
    }
    VB_ASSIGN(NotificationRule rule, parse_notification_rule(child, *form, region));
    if (rule.id.empty()) rule.id = made_up_id();
    rules.push_back(std::move(rule));
  }
  // Stored configurations were checked when they were set, by the rules of that time.
  if (region) VB_TRY(check_rules(rules));
  return rules;
}

std::string notification_xml(const NotificationRules& rules) {
  XmlWriter xml("NotificationConfiguration");
  for (const NotificationRule& rule : rules) write_rule(xml, rule);
  return xml.finish();
}

}  // namespace verbena::s3
