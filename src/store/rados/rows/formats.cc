#include "store/rados/rows/formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "store/logic/keys.h"
#include "store/rados/cluster/attribute.h"
#include "store/rados/rows/change.h"
#include "store/rados/rows/key_ids.h"

namespace verbena::store::rados {
namespace {

const std::string format_row = "format";
constexpr int joins_tried_max = 100;
constexpr const char *mark_attribute = "formats", *marked_text = "1";
constexpr std::string_view gate_line = "servers-of-this-cluster-have-format-";
constexpr std::chrono::seconds silence_of_others_max{30};  // a server that starts has a sign before it has a row
constexpr std::chrono::seconds known_at_least{25};         // less than Garbage::silence_max
constexpr std::chrono::seconds all_known_for{20};          // some looks, also at a slow cluster

// "FORMAT TOKEN"
std::optional<uint64_t> parse_format(std::string_view text) {
  uint64_t format = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), format);
  if (error != std::errc() || format == 0) return std::nullopt;
  if (end != text.data() + text.size() && *end != ' ' && *end != '\n') return std::nullopt;
  return format;
}

std::string format_text(uint64_t format) { return fmt::format("{} {:016x}", format, random_number()); }

std::string value_of(const ServersRows& rows, std::string_view name) {
  const auto found = rows.find(std::string(name));
  return found == rows.end() ? std::string() : found->second;
}

bool is_server_row(std::string_view name, char letter) { return name.starts_with(letter) && name.size() == 9; }

}  // namespace

std::optional<std::string> refused(uint64_t format, uint64_t oldest, uint64_t newest) {
  if (format > newest) {
    return fmt::format(
        "this version of Verbena is too old for the cluster: it knows the formats up to {}, and the servers of the "
        "cluster write format {}. Install the version of the other servers",
        newest, format);
  }
  if (format < oldest) {
    return fmt::format(
        "this version of Verbena is too new for the cluster: it knows the formats from {} on, and the servers of the "
        "cluster write format {}. Upgrade all of them to a version in between first, and let them run for a minute",
        oldest, format);
  }
  return std::nullopt;
}

namespace {

std::string how_to_set_format() {
  return "Nothing is guessed: see `ceph health`, and set it to the format that the servers wrote last (their logs name "
         "it: \"the servers of the cluster write format N\"; 1 where no log has that line): rados -p INDEX_POOL "
         "[-N NAMESPACE] setomapval servers format N";
}

}  // namespace

std::expected<uint64_t, std::string> format_in(const ServersRows& rows, bool marked) {
  const std::string text = value_of(rows, format_row);
  if (const auto format = parse_format(text)) return *format;
  const auto is_formats = [](const auto& row) { return is_server_row(row.first, 'v'); };
  const bool knew_formats =
      marked || has_gate_line(value_of(rows, key_ids_row)) || std::ranges::any_of(rows, is_formats);
  if (text.empty() && !knew_formats) return 1;
  return std::unexpected(fmt::format(
      "the index pool {} in which format the servers of the cluster write (row `format` of its object `servers`). {}",
      text.empty() ? "does not say any more" : "has no number where it says", how_to_set_format()));
}

uint64_t known_by_all(const ServersRows& rows, uint64_t newest) {
  for (const auto& [name, value] : rows) {
    if (!is_server_row(name, 's')) continue;
    const std::string known = value_of(rows, "v" + name.substr(1));
    newest = std::min(newest, known.size() == 16 ? keys::read_number(std::string_view(known).substr(8)) : 1);
  }
  return newest;
}

std::string without_gate_line(std::string_view ids) {
  std::string text;
  while (!ids.empty()) {
    const size_t end = std::min(ids.find('\n'), ids.size());
    if (!ids.starts_with(gate_line)) text.append(ids.substr(0, end)).append("\n");
    ids.remove_prefix(std::min(end + 1, ids.size()));
  }
  return text;
}

std::string with_gate_line(std::string_view ids, uint64_t format) {
  return without_gate_line(ids) + std::string(gate_line) + std::to_string(format) + "\n";
}

bool has_gate_line(std::string_view ids) {
  return ids.starts_with(gate_line) || ids.contains("\n" + std::string(gate_line));
}

std::string formats_row(uint64_t incarnation) { return keys::tagged('v', incarnation); }

std::chrono::milliseconds Formats::known_for() const {
  return std::max<std::chrono::milliseconds>(rest_ / 2, known_at_least);
}

void Formats::know(uint64_t format, LeaseClock::time_point since) {
  const auto sentence = refused(format, format_oldest, format_newest);
  registry_.cluster().allow_writes_until(sentence ? LeaseClock::time_point::min() : since + known_for());
  if (current_.exchange(format) == format) return;
  if (sentence) {
    log::error("rados: {}. Until then this server answers nothing, and changes nothing", *sentence);
  } else {
    log::info("rados: the servers of the cluster write format {}", format);
  }
}

void Formats::complain(const std::string& trouble) {
  if (trouble != complaint_ && !trouble.empty()) log::error("rados: {}", trouble);
  complaint_ = trouble;
}

Task<Result<bool>> Formats::is_marked() {
  const auto mark = co_await read_attribute(registry_.cluster(), Cluster::Pool::index, std::string(root_object),
                                            mark_attribute, "rados: root");
  if (!mark && mark.error() == Errc::not_found) co_return false;
  if (!mark) co_return std::unexpected(mark.error());
  co_return *mark == marked_text;
}

Task<int> Formats::mark() {
  librados::ObjectWriteOperation op;
  op.create(false);
  op.setxattr(mark_attribute, to_buffer(marked_text));
  co_return co_await registry_.cluster().write(Cluster::Pool::index, std::string(root_object), std::move(op));
}

Task<std::expected<void, std::string>> Formats::join(uint64_t incarnation, bool new_store) {
  for (int attempt = 0; attempt < joins_tried_max; ++attempt) {
    const auto joined = co_await join_once(incarnation, new_store);
    if (!joined) co_return std::unexpected(joined.error());
    if (*joined) co_return std::expected<void, std::string>();
  }
  co_return std::unexpected(std::string("the servers' formats change all the time"));
}

// False: others have replaced the token.
Task<std::expected<bool, std::string>> Formats::join_once(uint64_t incarnation, bool new_store) {
  const auto failed = [](const Error& error) { return std::unexpected("the servers' formats: " + describe(error)); };
  const auto since = LeaseClock::now();
  const auto rows = co_await registry_.all(std::string(servers_object), "");
  if (!rows) co_return failed(rows.error());
  const auto marked = co_await is_marked();
  if (!marked) co_return failed(marked.error());
  const std::string seen = value_of(*rows, format_row), ids = value_of(*rows, key_ids_row);
  auto format = new_store && seen.empty() ? format_newest : format_in(*rows, *marked);
  if (!format) co_return std::unexpected(std::move(format.error()));
  know(*format, since);
  if (auto sentence = refused(*format, format_oldest, format_newest)) co_return std::unexpected(std::move(*sentence));
  librados::ObjectWriteOperation op;
  op.create(false);
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {format_row, {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}},
      {std::string(key_ids_row), {to_buffer(ids), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  const std::string own = keys::number(format_oldest) + keys::number(format_newest);
  std::map<std::string, Buffer> set = {{format_row, to_buffer(format_text(*format))},
                                       {formats_row(incarnation), to_buffer(own)}};
  if (*format > 1 && !has_gate_line(ids)) set.emplace(key_ids_row, to_buffer(with_gate_line(ids, *format)));
  op.omap_set(set);
  int code = co_await registry_.cluster().write(Cluster::Pool::index, std::string(servers_object), std::move(op));
  if (code == -ECANCELED) co_return false;
  if (code >= 0 && !*marked) code = co_await mark();
  if (code < 0) co_return failed(to_error(code, "rados: formats"));
  incarnation_ = incarnation;
  // The first look at all tablets follows at once, and joins what it finds.
  ServersRows with_own = *rows;
  with_own[formats_row(incarnation)] = own;
  watch_others(with_own, *format, since);
  co_return true;
}

// The rows are of one moment if they fit a page. If not, they come in the order of their names: the token and the gate
// line were read before the signs of life.
Task<Result<void>> Formats::look(const ServersRows& rows, bool is_leader, LeaseClock::time_point since) {
  const auto format = format_in(rows, /*marked=*/current() > 1);
  if (!format) {  // it cannot be raised meanwhile, so that what this server knows stays true
    complain(format.error());
    co_return Result<void>{};
  }
  know(*format, since);
  if (!may_run()) co_return Result<void>{};
  if (incarnation_ != 0 && rows.contains(keys::tagged('s', incarnation_)) &&
      !rows.contains(formats_row(incarnation_))) {
    const auto again = co_await join(incarnation_, /*new_store=*/false);
    complain(again ? "" : again.error());
    co_return Result<void>{};
  }
  watch_others(rows, *format, since);
  if (!is_leader) {
    all_know_since_.reset();
    co_return Result<void>{};
  }
  co_return co_await look_as_leader(rows, *format);
}

void Formats::watch_others(const ServersRows& rows, uint64_t format, LeaseClock::time_point since) {
  const auto now = SteadyClock::now();
  const bool all = known_by_all(rows, format) == format;
  all_know_it_until_.store(all ? (since + all_known_for).time_since_epoch().count() : 0);
  if (all) some_do_not_since_.reset();
  if (!all && !some_do_not_since_) some_do_not_since_ = now;
  const bool for_long = some_do_not_since_ && now - *some_do_not_since_ > silence_of_others_max;
  complain(for_long ? fmt::format("a server runs that does not know format {}, which the servers of the cluster write. "
                                  "It was away when they began to. Stop it, and install their version",
                                  format)
                    : "");
}

Task<Result<void>> Formats::look_as_leader(const ServersRows& rows, uint64_t format) {
  const bool is_closed = has_gate_line(value_of(rows, key_ids_row));
  const uint64_t newest = known_by_all(rows, format_newest);
  if (newest <= format) all_know_since_.reset();
  if (newest > format && !all_know_since_) all_know_since_ = SteadyClock::now();
  if (all_know_since_ && SteadyClock::now() - *all_know_since_ >= rest_) {
    co_return co_await take(is_closed ? Step::raise : Step::close_gate, rows, newest);
  }
  if (format > 1 && !is_closed) co_return co_await take(Step::close_gate, rows, format);
  // For a raise that did not come: a server that does not know the format was there, or the leader died.
  if (format == 1 && is_closed) co_return co_await take(Step::open_gate, rows, format);
  co_return Result<void>{};
}

// Rows of servers that were given up go, too.
Task<Result<void>> Formats::take(Step step, const ServersRows& rows, uint64_t to) {
  const std::string ids_row(key_ids_row), ids = value_of(rows, ids_row);
  std::set<std::string> gone;
  for (const auto& [name, value] : rows) {
    if (is_server_row(name, 'v') && !rows.contains("s" + name.substr(1))) gone.insert(name);
  }
  librados::ObjectWriteOperation op;
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {format_row, {to_buffer(value_of(rows, format_row)), LIBRADOS_CMPXATTR_OP_EQ}},
      {ids_row, {to_buffer(ids), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  const std::string left = step == Step::open_gate ? without_gate_line(ids) : with_gate_line(ids, to);
  if (left.empty()) gone.insert(ids_row);
  if (!gone.empty()) op.omap_rm_keys(gone);
  std::map<std::string, Buffer> set;
  if (!left.empty()) set.emplace(ids_row, to_buffer(left));
  if (step == Step::raise) set.emplace(format_row, to_buffer(format_text(to)));
  if (!set.empty()) op.omap_set(set);
  const int code = co_await registry_.cluster().write(Cluster::Pool::index, std::string(servers_object), std::move(op));
  if (code == -ECANCELED) co_return Result<void>{};  // another server has joined: the next look
  if (code < 0) co_return std::unexpected(to_error(code, "rados: formats"));
  if (step == Step::raise) know(to, LeaseClock::now());
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
