// The calls of the admin API that read files, and so are served by a thread of their own: the audit log searched, and
// what `verbena doctor` says of this server.
#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "admin/audit_search.h"
#include "admin/examination.h"
#include "admin/operator_call.h"
#include "admin/server_numbers.h"
#include "auth/ip_range.h"
#include "base/date.h"

namespace verbena::admin {
namespace {

using Json = nlohmann::json;

constexpr uint64_t audit_lines_max = 1000;
constexpr unsigned searches_max = 8;                 // that run or wait; further ones are told to come again
constexpr std::chrono::seconds examined_for{5};      // what the doctor found is told for so long
constexpr std::chrono::seconds examined_within{10};  // who asks waits for it for so long

// "ok", "failed", "denied", "error", a status ("404", "5xx") or an error's code ("NoSuchKey").
bool read_outcome(const std::string& text, AuditFilter& filter) {
  const auto statuses = [&](int first, int last) {
    filter.status_first = first;
    filter.status_last = last;
    return true;
  };
  if (text.empty()) return true;
  if (text == "ok") return statuses(100, 399);
  if (text == "failed") return statuses(400, 999);
  if (text == "denied") return statuses(401, 403);
  if (text == "error") return statuses(500, 999);
  if (text.size() == 3 && text.ends_with("xx") && text[0] >= '1' && text[0] <= '5') {
    return statuses((text[0] - '0') * 100, (text[0] - '0') * 100 + 99);
  }
  int status = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), status);
  if (error == std::errc() && end == text.data() + text.size()) {
    return status >= 100 && status <= 999 && statuses(status, status);
  }
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  if (!std::ranges::all_of(text, letter)) return false;
  filter.error = text;
  return true;
}

Json finding_json(const Finding& finding) {
  return {{"health", to_string(finding.health)},
          {"subject", json_text(finding.subject)},
          {"found", json_text(finding.found)},
          {"mend", json_text(finding.mend)},
          {"command", json_text(finding.command)}};
}

std::filesystem::path folder_of(const std::string& file) {
  const auto folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? std::filesystem::path(".") : folder;
}

}  // namespace

Result<AuditFilter> Operator::audit_filter_of(const Call& call) const {
  AuditFilter filter;
  VB_ASSIGN(filter.text, call.text("search"));
  VB_ASSIGN(filter.principal, call.text("principal"));
  VB_ASSIGN(filter.action, call.text("action"));
  VB_ASSIGN(filter.bucket, call.text("bucket"));
  VB_ASSIGN(filter.prefix, call.text("prefix"));
  VB_ASSIGN(filter.door, call.text("door"));
  VB_ASSIGN(filter.request_id, call.text("id"));
  VB_ASSIGN(filter.peer, call.text("peer"));
  if (!filter.peer.empty() && !auth::parse_ip_range(filter.peer)) {
    return call.refuse(Errc::validation_error, "peer must be an address, or a range of them as 10.0.0.0/8.");
  }
  VB_ASSIGN(const std::string outcome, call.text("outcome"));
  if (!read_outcome(outcome, filter)) {
    return call.refuse(Errc::validation_error,
                       "An outcome is ok, failed, denied, error, a status (404, 5xx) or an error's code (NoSuchKey).");
  }
  for (const auto& [member, at] : {std::pair{"since", &filter.since_us}, std::pair{"until", &filter.until_us}}) {
    VB_ASSIGN(const std::string text, call.text(member));
    if (text.empty()) continue;
    const auto time = parse_iso8601(text);
    if (!time) {
      return call.refuse(Errc::validation_error, std::string(member) + " must be a time as 2026-01-02T03:04:05Z.");
    }
    *at = *time;
  }
  VB_ASSIGN(const std::string account, call.text("account"));
  if (account.empty()) return filter;
  // By its name, or its id; one that is gone has its id still.
  const auto found = parts_.identities.account_named(account);
  filter.account = found == nullptr ? account : found->account->id;
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (found == nullptr && !std::ranges::all_of(account, digit)) {
    return call.refuse(Errc::no_such_entity, "There is no account of this name or id.");
  }
  return filter;
}

Task<Result<Json>> Operator::audit(Call& call) {
  VB_CO_ASSIGN(AuditFilter filter, audit_filter_of(call));
  VB_CO_ASSIGN(std::string next, call.text("next"));
  VB_CO_ASSIGN(const uint64_t lines, call.number("lines", audit_lines_max));
  const std::string& path = parts_.config.access_log;
  const bool kept = path != "off" && path != "-";
  Json out = {{"log", kept ? "file" : path == "-" ? "output" : "off"}, {"lines", Json::array()}};
  if (!kept) co_return out;
  const Counted counted(searching_);
  if (counted.before >= searches_max) co_return call.refuse(Errc::slow_down, "Others search already: try again.");
  auto work = [this, &path, filter = std::move(filter), next = std::move(next), lines] {
    AuditBounds bounds;
    if (lines != 0) bounds.lines_max = lines;
    return search_audit(path, parts_.config.access_log_files, filter, next, bounds, parts_.stopping);
  };
  auto page = co_await parts_.pool.run("audit search", std::move(work));
  if (!page && page.error().code == Errc::invalid_argument) {
    co_return call.refuse(Errc::validation_error, "next is no place of this log, or its file is gone: search again.");
  }
  if (!page) co_return std::unexpected(page.error());
  out["path"] = json_text(path);
  for (Json& line : page->lines) out["lines"].push_back(std::move(line));
  out["next"] = page->next;
  out["reaches"] = json_text(page->reaches);
  out["bytes_read"] = page->bytes_read;
  out["unreadable"] = page->unreadable;
  out["problems"] = Json::array();
  for (const std::string& problem : page->problems) out["problems"].push_back(json_text(problem));
  co_return out;
}

std::shared_ptr<Examination> examination_of(const Operator::Parts& parts, const ServerFacts& facts) {
  ServerPlaces places;
  places.arena = {.bytes = parts.arena.mapping().size(), .running = true, .huge_pages = parts.arena.huge_pages()};
  places.data = facts.data;
  places.rdma = parts.config.rdma.enabled;
  const std::string& log = parts.config.access_log;
  if (log != "off" && log != "-") places.access_log = folder_of(log);
  return std::make_shared<Examination>([places] { return examine_server(places); }, examined_for);
}

Task<Result<Json>> Operator::doctor(Call& call) {
  const Deadline until = deadline_in(examined_within);
  for (;;) {
    if (const auto findings = examination_->ask(parts_.doctor_pool)) {
      Json list = Json::array();
      for (const Finding& finding : *findings) list.push_back(finding_json(finding));
      co_return Json{{"findings", std::move(list)}};
    }
    const bool again = co_await wait_a_moment(until);
    if (!again) break;
  }
  co_return call.refuse(Errc::slow_down, "The machine is still being looked at: a disk may not answer. Try again.");
}

}  // namespace verbena::admin
