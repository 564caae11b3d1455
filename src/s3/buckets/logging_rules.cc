#include "s3/buckets/logging_rules.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/date.h"
#include "s3/access/access.h"
#include "s3/access/authorize.h"
#include "s3/access/grants_xml.h"
#include "s3/names.h"
#include "s3/xml.h"
#include "s3/xml_reader.h"

namespace verbena::s3 {
namespace {

using KeyFormat = LoggingRule::KeyFormat;
constexpr size_t target_prefix_bytes_max = 512;  // of a key's 1024; the server appends the rest

Result<KeyFormat> parse_format(const pugi::xml_node& node) {
  if (!node) return KeyFormat::simple;
  VB_TRY(check_children(node, {"SimplePrefix", "PartitionedPrefix"}));
  const auto simple = node.child("SimplePrefix"), partitioned = node.child("PartitionedPrefix");
  if (!simple == !partitioned) return fail(Errc::malformed_xml, "xml: TargetObjectKeyFormat");
  if (simple) return KeyFormat::simple;
  VB_TRY(check_children(partitioned, {"PartitionDateSource"}));
  const std::string source = trimmed_text(partitioned.child("PartitionDateSource"));
  if (source == "EventTime") return KeyFormat::by_event_time;
  if (source == "DeliveryTime") return KeyFormat::by_delivery_time;
  return fail(Errc::malformed_xml, "xml: PartitionDateSource");
}

// The permissions that may be granted on log objects.
Result<std::vector<Grant>> parse_target_grants(const Service* service, const pugi::xml_node& node) {
  VB_TRY(check_children(node, {"Grant"}));
  VB_ASSIGN(std::vector<Grant> grants, parse_grants(service, node));
  const auto refused = [](const Grant& grant) {
    return grant.permission == Permission::read_acp || grant.permission == Permission::write_acp;
  };
  if (std::ranges::any_of(grants, refused)) return fail(Errc::malformed_xml, "xml: TargetGrants: Permission");
  return grants;
}

}  // namespace

Result<std::optional<LoggingRule>> parse_logging(const Service* service, std::string_view text) {
  pugi::xml_document document;
  VB_ASSIGN(const pugi::xml_node root, load_xml(document, text, "BucketLoggingStatus"));
  VB_TRY(check_children(root, {"LoggingEnabled"}));
  const auto node = root.child("LoggingEnabled");
  if (!node) return std::nullopt;
  VB_TRY(check_children(node, {"TargetBucket", "TargetPrefix", "TargetGrants", "TargetObjectKeyFormat"}));
  LoggingRule rule;
  VB_ASSIGN(rule.grants, parse_target_grants(service, node.child("TargetGrants")));
  rule.target_bucket = trimmed_text(node.child("TargetBucket"));
  rule.prefix = text_of(node.child("TargetPrefix"));
  if (!node.child("TargetPrefix") || !check_bucket_name(rule.target_bucket)) {
    return fail(Errc::malformed_xml, "xml: LoggingEnabled");
  }
  if (rule.prefix.size() > target_prefix_bytes_max) return fail(Errc::invalid_argument, "TargetPrefix is too long.");
  VB_ASSIGN(rule.format, parse_format(node.child("TargetObjectKeyFormat")));
  return rule;
}

std::string logging_xml(const Service& service, const LoggingRule& rule) {
  XmlWriter xml("BucketLoggingStatus");
  xml.open("LoggingEnabled");
  xml.element("TargetBucket", rule.target_bucket);
  if (!rule.grants.empty()) {
    xml.open("TargetGrants");
    write_grants(xml, service, rule.grants);
    xml.close();
  }
  xml.element("TargetPrefix", rule.prefix);
  xml.open("TargetObjectKeyFormat");
  if (rule.format == KeyFormat::simple) {
    xml.element("SimplePrefix", "");
  } else {
    xml.open("PartitionedPrefix");
    xml.element("PartitionDateSource", rule.format == KeyFormat::by_event_time ? "EventTime" : "DeliveryTime");
  }
  return xml.finish();
}

Result<Acl> log_object_acl(const BucketAccess& target, const LoggingRule& rule) {
  Acl acl = private_acl(target.owner);
  if (!target.lists_count()) return acl;
  acl.grants.insert(acl.grants.end(), rule.grants.begin(), rule.grants.end());
  return allowed_acl(target, std::move(acl), {});
}

std::string log_object_key(const LoggingRule& rule, const LogSource& source, int64_t now_s, std::string_view unique) {
  constexpr int64_t day_s = 86'400;
  // As AWS: a day of events has no time of day.
  const int64_t at_s = rule.format == KeyFormat::by_event_time ? source.event_s / day_s * day_s : now_s;
  const std::string iso = format_iso8601(at_s * 1'000'000);  // 2026-01-02T03:04:05.000Z
  const auto part = [&](size_t from, size_t count) { return std::string_view(iso).substr(from, count); };
  const std::string name = fmt::format("{}-{}-{}-{}-{}-{}-{}", part(0, 4), part(5, 2), part(8, 2), part(11, 2),
                                       part(14, 2), part(17, 2), unique);
  if (rule.format == KeyFormat::simple) return rule.prefix + name;
  return fmt::format("{}{}/{}/{}/{}/{}/{}/{}", rule.prefix, source.account, source.region, source.bucket, part(0, 4),
                     part(5, 2), part(8, 2), name);
}

}  // namespace verbena::s3
