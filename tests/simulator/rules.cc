#include "simulator/rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/date.h"
#include "simulator/scheduler.h"

namespace verbena::simulator {
namespace {

uint64_t draw_below(uint64_t below) { return Scheduler::get().random() % below; }

bool applies(const Rule& rule, const Facts& facts) {
  return facts.key.starts_with(rule.prefix) && (rule.size_above == 0 || facts.size > rule.size_above) &&
         facts.size < rule.size_below && (rule.tag == 0 || rule.tag == facts.tag);
}

// When the rule's action is due; nullopt: never.
std::optional<int64_t> expiry(const Rule& rule, const Facts& facts, int64_t since_ns, int64_t day_ns) {
  if (!applies(rule, facts)) return std::nullopt;
  if (rule.days != 0) return since_ns + rule.days * day_ns;
  if (rule.date_s) return *rule.date_s * 1'000'000'000;
  return std::nullopt;
}
std::optional<int64_t> noncurrent_due(const Rule& rule, const Facts& facts, int64_t since_ns, size_t newer,
                                      int64_t day_ns) {
  if (rule.noncurrent_days == 0 || newer < rule.noncurrent_keep || !applies(rule, facts)) return std::nullopt;
  return since_ns + rule.noncurrent_days * day_ns;
}
std::optional<int64_t> marker_due(const Rule& rule, const Facts& facts, int64_t since_ns, int64_t day_ns) {
  if (rule.lone_markers && applies(rule, facts)) return INT64_MIN;
  return expiry(rule, facts, since_ns, day_ns);
}
std::optional<int64_t> abort_due(const Rule& rule, const Facts& facts, int64_t since_ns, int64_t day_ns) {
  if (rule.abort_days == 0 || !facts.key.starts_with(rule.prefix)) return std::nullopt;
  return since_ns + rule.abort_days * day_ns;
}

template <class Due>
bool demanded(const std::vector<Rule>& rules, int64_t now_ns, const Due& due) {
  return std::ranges::any_of(rules, [&](const Rule& rule) {
    const auto at_ns = due(rule);
    return at_ns && *at_ns <= now_ns;
  });
}

Rule draw_rule(bool versioned) {
  Rule rule;
  const int64_t days = 1 + static_cast<int64_t>(draw_below(3));
  switch (draw_below(versioned ? 6 : 3)) {
    case 0:
      rule.days = days;
      break;
    case 1:
      rule.abort_days = days;
      rule.prefix = draw_below(2) == 0 ? "" : "k1";
      return rule;
    case 2:
      rule.date_s =
          (Scheduler::get().wall_ns() / 1'000'000'000 / 86'400 + static_cast<int64_t>(draw_below(2))) * 86'400;
      break;
    case 3:
      rule.lone_markers = true;
      if (draw_below(2) == 0) return rule;
      rule.lone_markers = false;
      rule.noncurrent_days = days;
      rule.noncurrent_keep = 1 + draw_below(2);
      break;
    default:
      rule.noncurrent_days = days;
  }
  // Not everything may go, or there is nothing left to look at.
  switch (draw_below(4)) {
    case 0:
      rule.prefix = fmt::format("k{}", draw_below(3));
      break;
    case 1:
      rule.tag = 1 + static_cast<uint32_t>(draw_below(2));
      break;
    case 2:
      rule.size_above = 100;
      rule.size_below = 10'000;
      break;
    default:
      if (rule.noncurrent_days == 0) rule.prefix = "k2";
  }
  return rule;
}

}  // namespace

std::string Rule::xml() const {
  std::string conditions;
  int count = prefix.empty() ? 0 : 1;
  if (!prefix.empty()) conditions += fmt::format("<Prefix>{}</Prefix>", prefix);
  if (tag != 0) conditions += fmt::format("<Tag><Key>t</Key><Value>{}</Value></Tag>", tag), ++count;
  if (size_above != 0)
    conditions += fmt::format("<ObjectSizeGreaterThan>{}</ObjectSizeGreaterThan>", size_above), ++count;
  if (size_below != UINT64_MAX)
    conditions += fmt::format("<ObjectSizeLessThan>{}</ObjectSizeLessThan>", size_below), ++count;
  if (count > 1) conditions = "<And>" + conditions + "</And>";
  std::string text = "<Rule><Status>Enabled</Status><Filter>" + conditions + "</Filter>";
  if (days != 0) text += fmt::format("<Expiration><Days>{}</Days></Expiration>", days);
  if (date_s) text += fmt::format("<Expiration><Date>{}</Date></Expiration>", format_iso8601(*date_s * 1'000'000));
  if (lone_markers) text += "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>";
  if (noncurrent_days != 0) {
    text += fmt::format("<NoncurrentVersionExpiration><NoncurrentDays>{}</NoncurrentDays>", noncurrent_days);
    if (noncurrent_keep != 0)
      text += fmt::format("<NewerNoncurrentVersions>{}</NewerNoncurrentVersions>", noncurrent_keep);
    text += "</NoncurrentVersionExpiration>";
  }
  if (abort_days != 0) {
    text += fmt::format(
        "<AbortIncompleteMultipartUpload><DaysAfterInitiation>{}</DaysAfterInitiation></"
        "AbortIncompleteMultipartUpload>",
        abort_days);
  }
  return text + "</Rule>";
}

std::vector<Rule> RuleBook::draw(bool versioned) {
  std::vector<Rule> rules;
  for (uint64_t left = 1 + draw_below(3); left > 0; --left) rules.push_back(draw_rule(versioned));
  return rules;
}

std::string RuleBook::xml(const std::vector<Rule>& rules) {
  std::string text = "<LifecycleConfiguration>";
  for (const Rule& rule : rules) text += rule.xml();
  return text + "</LifecycleConfiguration>";
}

void RuleBook::begin(std::vector<Rule> rules, int64_t now_ns) {
  const bool only_days =
      std::ranges::none_of(rules, [](const Rule& rule) { return rule.date_s.has_value() || rule.lone_markers; });
  sets_.push_back({std::move(rules), now_ns, INT64_MAX, only_days});
}

void RuleBook::done(int64_t now_ns) {
  for (Set& set : sets_) {
    if (&set != &sets_.back() && set.to_ns == INT64_MAX) set.to_ns = now_ns;
  }
}

// Of the removals that the rules of some time allowed by now, the earliest.
template <class Due>
std::optional<int64_t> RuleBook::earliest(bool only_days, int64_t since_ns, int64_t now_ns, const Due& due) const {
  std::optional<int64_t> first;
  for (const Set& set : sets_) {
    if (set.from_ns > now_ns) continue;
    if ((only_days || set.only_days) && set.to_ns < since_ns + day_ns_) continue;  // withdrawn before anything was due
    for (const Rule& rule : set.rules) {
      const auto at_ns = due(rule);
      if (!at_ns || *at_ns > std::min(now_ns, set.to_ns)) continue;
      if (!first || *at_ns < *first) first = at_ns;
    }
  }
  return first;
}

bool RuleBook::may_expire(const Facts& facts, int64_t& since_ns, int64_t now_ns) const {
  const auto first =
      earliest(false, since_ns, now_ns, [&](const Rule& rule) { return expiry(rule, facts, since_ns, day_ns_); });
  if (first) since_ns = std::max(since_ns, *first);
  return first.has_value();
}
bool RuleBook::may_remove_noncurrent(const Facts& facts, int64_t since_ns, size_t newer, int64_t now_ns) const {
  return earliest(true, since_ns, now_ns,
                  [&](const Rule& rule) { return noncurrent_due(rule, facts, since_ns, newer, day_ns_); })
      .has_value();
}
bool RuleBook::may_remove_marker(const Facts& facts, int64_t since_ns, int64_t now_ns) const {
  return earliest(false, since_ns, now_ns, [&](const Rule& rule) { return marker_due(rule, facts, since_ns, day_ns_); })
      .has_value();
}
bool RuleBook::may_abort(const Facts& facts, int64_t since_ns, int64_t now_ns) const {
  return earliest(true, since_ns, now_ns, [&](const Rule& rule) { return abort_due(rule, facts, since_ns, day_ns_); })
      .has_value();
}

bool RuleBook::must_expire(const Facts& facts, int64_t since_ns, int64_t now_ns) const {
  return demanded(last(), now_ns, [&](const Rule& rule) { return expiry(rule, facts, since_ns, day_ns_); });
}
bool RuleBook::must_remove_noncurrent(const Facts& facts, int64_t since_ns, size_t newer, int64_t now_ns) const {
  return demanded(last(), now_ns,
                  [&](const Rule& rule) { return noncurrent_due(rule, facts, since_ns, newer, day_ns_); });
}
bool RuleBook::must_remove_marker(const Facts& facts, int64_t since_ns, int64_t now_ns) const {
  return demanded(last(), now_ns, [&](const Rule& rule) { return marker_due(rule, facts, since_ns, day_ns_); });
}
bool RuleBook::must_abort(const Facts& facts, int64_t since_ns, int64_t now_ns) const {
  return demanded(last(), now_ns, [&](const Rule& rule) { return abort_due(rule, facts, since_ns, day_ns_); });
}

}  // namespace verbena::simulator
