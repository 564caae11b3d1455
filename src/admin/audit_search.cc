#include "admin/audit_search.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "admin/lines_backwards.h"
#include "auth/ip_range.h"
#include "base/checksum.h"
#include "base/clock.h"
#include "base/date.h"
#include "base/fd.h"
#include "base/text.h"
#include "call/access_log_history.h"
#include "observe/request_watch.h"

namespace verbena::admin {
namespace {

using Json = nlohmann::json;

// The log is ordered by the ends of requests, roughly: other cores' lines, a slow disk or a changed clock shift lines
// by up to this.
constexpr int64_t slack_us = 60'000'000;
// No request takes longer; a larger number in a line is invalid, and must not overflow.
constexpr int64_t duration_us_max = 366LL * 86'400 * 1'000'000;
// This much of the log in one run must be too old before the search concludes that everything before it is, too: a
// clock that was wrong for a while leaves lines among the others whose time says nothing about them.
constexpr uint64_t too_old_bytes_max = 4 << 20;
constexpr size_t first_line_max = 1024;  // of a file's first line, which identifies the file
// The begin of every line that a server writes; after it come 24 characters of time, which sort as text.
constexpr std::string_view line_begin = "{\"time\":\"";
constexpr size_t time_chars = 24;

constexpr const char* texts[] = {"door",   "transport", "peer",    "principal", "access_key", "action", "path",
                                 "bucket", "key",       "version", "source",    "error",      "id"};
constexpr const char* numbers[] = {"status", "bytes_in", "bytes_out", "rdma_bytes", "duration_us", "items", "of_items"};

std::string_view text_of(const Json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_string() ? std::string_view(found->get_ref<const std::string&>())
                                                   : std::string_view();
}

bool holds(std::string_view text, std::string_view lower_part) {
  return lower_part.empty() ||
         std::ranges::search(text, lower_part, {}, [](char c) { return lower(c); }).begin() != text.end();
}

// The duration of a line's request, read without parsing the line. No text contains this name: a quotation mark in one
// is preceded by a backslash.
int64_t duration_us_of(std::string_view raw) {
  constexpr std::string_view name = ",\"duration_us\":";
  const size_t at = raw.rfind(name);
  int64_t value = 0;
  if (at != std::string_view::npos) std::from_chars(raw.data() + at + name.size(), raw.data() + raw.size(), value);
  return std::clamp<int64_t>(value, 0, duration_us_max);
}

// Whether the text appears unchanged in a line: none of its characters is escaped.
bool is_plain(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c >= 0x20 && c < 0x7f && c != '"' && c != '\\'; });
}

// Adds the text that a matching line must contain: it is searched for without parsing. Texts with escapes have no such
// form.
void add_needle(std::vector<std::string>& needles, const char* name, std::string_view value, bool whole) {
  if (value.empty() || !is_plain(value)) return;
  needles.push_back("\"" + std::string(name) + "\":\"" + std::string(value) + (whole ? "\"" : ""));
}

struct FileId {
  uint64_t device = 0, number = 0;
  uint64_t first_line = 0;  // its checksum: inode numbers are reused, and a file may be emptied and filled again
  auto operator<=>(const FileId&) const = default;
};

FileId id_of(int fd, const struct stat& status) {
  char begin[first_line_max];
  const ssize_t n = ::pread(fd, begin, sizeof begin, 0);
  std::string_view line(begin, n < 0 ? 0 : static_cast<size_t>(n));
  line = line.substr(0, line.find('\n'));
  return {static_cast<uint64_t>(status.st_dev), static_cast<uint64_t>(status.st_ino), crc32c(as_bytes(line))};
}

// A position, as "DEVICE-NUMBER-FIRSTLINE-OFFSET" in hexadecimal digits.
struct Place {
  FileId file;
  uint64_t offset = 0;

  std::string text() const {
    std::string out;
    for (const uint64_t part : {file.device, file.number, file.first_line, offset}) {
      char digits[16];
      const auto end = std::to_chars(digits, digits + sizeof digits, part, 16).ptr;
      out.append(out.empty() ? "" : "-").append(digits, end);
    }
    return out;
  }
  static std::optional<Place> parse(std::string_view text) {
    Place place;
    uint64_t* const parts[] = {&place.file.device, &place.file.number, &place.file.first_line, &place.offset};
    for (size_t i = 0; i < std::size(parts); ++i) {
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *parts[i], 16);
      if (error != std::errc()) return std::nullopt;
      text.remove_prefix(static_cast<size_t>(end - text.data()));
      if (i + 1 == std::size(parts)) break;
      if (!text.starts_with('-')) return std::nullopt;
      text.remove_prefix(1);
    }
    if (!text.empty()) return std::nullopt;
    return place;
  }
};

class Search {
 public:
  Search(const AuditFilter& filter, const AuditBounds& bounds, const std::atomic<bool>& stopping)
      : filter_(filter),
        bounds_(bounds),
        stopping_(stopping),
        until_(SteadyClock::now() + bounds.time_max),
        since_text_(format_iso8601(filter.since_us)),
        until_text_(format_iso8601(filter.until_us)),
        text_(lower(filter.text)),
        principal_(lower(filter.principal)),
        action_(lower(filter.action)),
        range_(auth::parse_ip_range(filter.peer)) {
    // The bucket's name and the key's prefix are in the request's own fields, or in those of its copy source or old
    // name.
    for (const std::string* part : {&filter.bucket, &filter.prefix}) {
      if (!part->empty() && is_plain(*part)) needles_.push_back(*part);
    }
    add_needle(needles_, "door", filter.door, true);
    add_needle(needles_, "id", filter.request_id, true);
    add_needle(needles_, "error", filter.error, true);
    for (const std::string* part : {&text_, &principal_, &action_}) {
      if (!part->empty() && is_plain(*part)) parts_.push_back(*part);
    }
  }

  // False: the page has ended, or no older file has anything.
  bool file(int fd, const FileId& id, uint64_t end) {
    LinesBackwards lines(fd, end);
    const bool older = read(lines, id);
    page.unreadable += lines.lines_left_out();
    return older;
  }

  AuditPage page;

 private:
  bool read(LinesBackwards& lines, const FileId& id) {
    const uint64_t before = page.bytes_read;
    for (std::string_view raw;;) {
      if (is_full()) {
        page.next = Place{id, lines.place()}.text();
        return false;
      }
      const auto found = lines.next(raw);
      begun_ = true;
      page.bytes_read = before + lines.bytes_read();
      if (found == LinesBackwards::Found::line && !raw.empty() && !look(raw)) return false;
      if (found == LinesBackwards::Found::end) return true;
    }
  }

  bool is_full() const {
    if (page.lines.size() >= bounds_.lines_max || answer_bytes_ >= bounds_.answer_bytes_max) return true;
    if (!begun_) return false;  // each page makes progress
    return page.bytes_read >= bounds_.read_bytes_max || SteadyClock::now() >= until_ || stopping_;
  }

  // False: no earlier line is in the requested time.
  bool look(std::string_view raw) {
    if (!raw.starts_with(line_begin) || raw.size() < line_begin.size() + time_chars) {
      ++page.unreadable;
      return true;
    }
    const std::string_view time = raw.substr(line_begin.size(), time_chars);
    page.reaches.assign(time);
    if (time >= until_text_) {
      too_old_bytes_ = 0;
      return true;
    }
    if (time < since_text_) {
      const auto began = parse_iso8601(time);
      const bool ended_before = began && *began + duration_us_of(raw) + slack_us < filter_.since_us;
      too_old_bytes_ = ended_before ? too_old_bytes_ + raw.size() + 1 : 0;
      return too_old_bytes_ < too_old_bytes_max;
    }
    too_old_bytes_ = 0;
    for (const std::string& needle : needles_) {
      if (raw.find(needle) == std::string_view::npos) return true;
    }
    for (const std::string& part : parts_) {
      if (!holds(raw, part)) return true;
    }
    const Json line = Json::parse(raw, nullptr, /*allow_exceptions=*/false);
    if (!line.is_object()) {
      ++page.unreadable;
    } else if (fits(line)) {
      answer_bytes_ += raw.size();
      page.lines.push_back(told(line));
    }
    return true;
  }

  bool fits(const Json& line) const {
    const auto is = [&](const char* name, const std::string& wanted) {
      return wanted.empty() || text_of(line, name) == wanted;
    };
    if (!names_fit(line) || !is("door", filter_.door) || !is("id", filter_.request_id)) return false;
    if (!is("error", filter_.error)) return false;
    if (!holds(text_of(line, "action"), action_)) return false;
    return status_fits(line) && peer_fits(line) && caller_fits(line) && text_fits(line);
  }

  // The request's own key, or that of its copy source or old name.
  bool names_fit(const Json& line) const {
    const auto fit = [&](std::string_view bucket, std::string_view key) {
      return (filter_.bucket.empty() || bucket == filter_.bucket) && key.starts_with(filter_.prefix);
    };
    if (fit(text_of(line, "bucket"), text_of(line, "key"))) return true;
    const std::string_view source = text_of(line, "source");
    const size_t slash = source.find('/');
    return slash != std::string_view::npos && fit(source.substr(0, slash), source.substr(slash + 1));
  }

  bool status_fits(const Json& line) const {
    if (filter_.status_first == 0 && filter_.status_last == 0) return true;
    const auto found = line.find("status");
    if (found == line.end() || !found->is_number_unsigned()) return false;
    const auto status = found->get<uint64_t>();
    return status >= static_cast<uint64_t>(filter_.status_first) &&
           status <= static_cast<uint64_t>(filter_.status_last);
  }

  bool peer_fits(const Json& line) const {
    if (filter_.peer.empty()) return true;
    const std::string_view peer = text_of(line, "peer");
    if (!range_) return peer == filter_.peer;
    const auto address = auth::parse_ip(peer);
    return address && range_->contains(*address);
  }

  bool caller_fits(const Json& line) const {
    const std::string_view arn = text_of(line, "principal");
    if (!holds(arn, principal_) && text_of(line, "access_key") != filter_.principal) return false;
    if (filter_.account.empty()) return true;
    // Taken from the ARN's account field: a path after it may contain similar text.
    return observe::account_of(arn) == filter_.account;
  }

  bool text_fits(const Json& line) const {
    if (text_.empty()) return true;
    return std::ranges::any_of(texts, [&](const char* name) { return holds(text_of(line, name), text_); });
  }

  static Json told(const Json& line) {
    Json out = {{"time", text_of(line, "time")}};
    for (const char* name : texts) {
      if (const auto text = text_of(line, name); !text.empty()) out[name] = text;
    }
    for (const char* name : numbers) {
      if (const auto found = line.find(name); found != line.end() && found->is_number_unsigned()) out[name] = *found;
    }
    return out;
  }

  const AuditFilter& filter_;
  const AuditBounds& bounds_;
  const std::atomic<bool>& stopping_;
  const SteadyClock::time_point until_;
  const std::string since_text_, until_text_;
  const std::string text_, principal_, action_;  // lower case
  const std::optional<auth::IpRange> range_;
  std::vector<std::string> needles_;
  std::vector<std::string> parts_;  // lower case
  size_t answer_bytes_ = 0;
  uint64_t too_old_bytes_ = 0;  // of the last lines read, consecutively
  bool begun_ = false;
};

// An empty descriptor: no such file, or a problem was added that says why it cannot be read.
Fd open_log(const std::string& name, struct stat& status, std::vector<std::string>& problems) {
  Fd fd(::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd || ::fstat(fd.get(), &status) != 0) {
    if (errno != ENOENT) problems.push_back(name + ": " + std::strerror(errno));
    return {};
  }
  if (S_ISREG(status.st_mode)) return fd;
  problems.push_back(name + " is no file that can be searched");
  return {};
}

}  // namespace

Result<AuditPage> search_audit(const std::string& path, unsigned files_max, const AuditFilter& filter,
                               const std::string& from, const AuditBounds& bounds, const std::atomic<bool>& stopping) {
  std::optional<Place> place;
  if (!from.empty()) {
    place = Place::parse(from);
    if (!place) return fail(Errc::invalid_argument, "audit: place");
  }
  Search search(filter, bounds, stopping);
  // Files may be rotated while they are read: none is read twice.
  std::set<FileId> seen;
  for (unsigned n = 0; n <= files_max + 1; ++n) {
    const std::string name = n == 0 ? path : n <= files_max ? path + "." + std::to_string(n) : call::kept_path(path);
    struct stat status{};
    const Fd fd = open_log(name, status, search.page.problems);
    if (!fd) continue;
    const FileId id = id_of(fd.get(), status);
    if (!seen.insert(id).second || (place && place->file != id)) continue;
    const auto size = static_cast<uint64_t>(status.st_size);
    const uint64_t end = place ? std::min(place->offset, size) : size;
    place.reset();
    // Not written to since then. Checked for each file: the clock may have been wrong when one ended.
    if (status.st_mtim.tv_sec < (filter.since_us - slack_us) / 1'000'000) continue;
    if (!search.file(fd.get(), id, end)) break;
  }
  if (place) return fail(Errc::invalid_argument, "audit: place is gone");
  return std::move(search.page);
}

}  // namespace verbena::admin
