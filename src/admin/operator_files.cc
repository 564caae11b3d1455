// The admin API's calls that read files, on threads of their own: search in the audit log, and the findings of `verbena
// doctor` about this server.
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <atomic>
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
constexpr unsigned searches_max = 8;                 // running or waiting; further ones get slow_down
constexpr std::chrono::seconds searched_within{30};  // a page takes a second, and seven others may be before it
constexpr std::chrono::milliseconds look_first{1}, look_most{20};  // the interval of checks for a finished page
constexpr std::chrono::seconds examined_for{5};                    // how long findings are cached
constexpr std::chrono::seconds examined_within{10};                // how long a caller waits for them

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

// A search for a page. It owns everything that the search uses: if the disk does not answer, the search outlives its
// caller and the server.
struct PageSearch {
  std::string path, from;
  unsigned files_max = 0;
  AuditFilter filter{};
  AuditBounds bounds{};
  std::atomic<bool> give_up{false};
  std::atomic<bool> done{false};
  Result<AuditPage> page = AuditPage();  // when it is done
};

// Stops the search when its caller is gone.
struct GivenUp {
  const std::shared_ptr<PageSearch> search;
  explicit GivenUp(std::shared_ptr<PageSearch> of) : search(std::move(of)) {}
  ~GivenUp() { search->give_up = true; }
  GivenUp(const GivenUp&) = delete;
};

// False: it was not finished in time, or the server ends.
Task<bool> wait_for(std::shared_ptr<PageSearch> search, const std::atomic<bool>& stopping) {
  boost::asio::steady_timer timer(co_await boost::asio::this_coro::executor);
  const Deadline until = deadline_in(searched_within);
  for (auto pause = look_first; !search->done; pause = std::min(2 * pause, look_most)) {
    if (stopping || SteadyClock::now() >= until) co_return false;
    timer.expires_after(pause);
    co_await timer.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  }
  co_return true;
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
  // By name, or by id; a removed account still has its id.
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
  if (counted.before >= searches_max) co_return call.refuse(Errc::slow_down, "Other searches are running: try again.");
  const auto search = std::make_shared<PageSearch>();
  search->path = path;
  search->from = std::move(next);
  search->files_max = parts_.config.access_log_files;
  search->filter = std::move(filter);
  if (lines != 0) search->bounds.lines_max = lines;
  const GivenUp at_the_end(search);
  const auto work = [search] {
    search->page =
        search_audit(search->path, search->files_max, search->filter, search->from, search->bounds, search->give_up);
    search->done = true;
  };
  if (!parts_.pool.submit("audit search", work))
    co_return call.refuse(Errc::slow_down, "Other searches are running: try again.");
  const bool there = co_await wait_for(search, parts_.stopping);
  // Not slow_down, on which the caller would try again and again.
  if (!there)
    co_return call.refuse(Errc::internal, "The disk of the access log does not answer, or the server is stopping.");
  auto& page = search->page;
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
  places.device = parts.config.device;
  places.pmem = parts.config.pmem;
  places.config = parts.config;
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
  co_return call.refuse(Errc::slow_down, "The checks are still running: a disk may not answer. Try again.");
}

}  // namespace verbena::admin
