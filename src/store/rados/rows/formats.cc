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
#include "store/rados/rows/change.h"
#include "store/rados/rows/key_ids.h"

namespace verbena::store::rados {
namespace {

const std::string format_row = "format";
constexpr int joins_tried_max = 100;
constexpr std::string_view line_for_older_servers = "servers-of-this-cluster-have-format-";

// "FORMAT TOKEN"; 1 if there is none yet.
uint64_t format_in(std::string_view text) {
  uint64_t format = 1;
  (void)std::from_chars(text.data(), text.data() + text.size(), format);
  return format;
}

std::string format_text(uint64_t format) { return fmt::format("{} {:016x}", format, random_number()); }

std::string value_of(const std::map<std::string, std::string>& rows, const std::string& name) {
  const auto found = rows.find(name);
  return found == rows.end() ? std::string() : found->second;
}

// The ids of the master keys with one line for servers from before formats.
std::string with_line(std::string_view ids, uint64_t format) {
  std::string text;
  while (!ids.empty()) {
    const size_t end = std::min(ids.find('\n'), ids.size());
    if (!ids.starts_with(line_for_older_servers)) text.append(ids.substr(0, end)).append("\n");
    ids.remove_prefix(std::min(end + 1, ids.size()));
  }
  return text + std::string(line_for_older_servers) + std::to_string(format) + "\n";
}

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

std::string formats_row(uint64_t incarnation) { return keys::tagged('v', incarnation); }

void Formats::know(uint64_t format) {
  if (current_.exchange(format) == format) return;
  if (format > format_newest) {
    log::error("rados: {}. Until then this server answers nothing", *refused(format, format_oldest, format_newest));
  } else {
    log::info("rados: the servers of the cluster write format {}", format);
  }
}

Task<std::expected<void, std::string>> Formats::join(uint64_t incarnation, bool new_store) {
  for (int attempt = 0; attempt < joins_tried_max; ++attempt) {
    std::string name = format_row;
    const auto seen = co_await registry_.row(std::string(servers_object), std::move(name));
    if (!seen) co_return std::unexpected("the servers' formats: " + describe(seen.error()));
    const uint64_t format = new_store && seen->empty() ? format_newest : format_in(*seen);
    know(format);
    if (auto sentence = refused(format, format_oldest, format_newest)) co_return std::unexpected(std::move(*sentence));
    librados::ObjectWriteOperation op;
    op.create(false);
    const std::map<std::string, std::pair<Buffer, int>> expected = {
        {format_row, {to_buffer(*seen), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(expected, nullptr);
    const std::map<std::string, Buffer> set = {
        {format_row, to_buffer(format_text(format))},
        {formats_row(incarnation), to_buffer(keys::number(format_oldest) + keys::number(format_newest))}};
    op.omap_set(set);
    if (new_store && seen->empty()) {  // no id is there yet
      const std::map<std::string, Buffer> line = {{std::string(key_ids_row), to_buffer(with_line("", format))}};
      op.omap_set(line);
    }
    const int code =
        co_await registry_.cluster().write(Cluster::Pool::index, std::string(servers_object), std::move(op));
    if (code >= 0) {
      incarnation_ = incarnation;
      co_return std::expected<void, std::string>();
    }
    if (code != -ECANCELED) {
      co_return std::unexpected("the servers' formats: " + describe(to_error(code, "rados: formats")));
    }
  }
  co_return std::unexpected(std::string("the servers' formats change all the time"));
}

// The rows are of one moment if they fit a page; if not, the token is compared with an older one at worst, and a server
// that joined since has replaced it.
Task<Result<void>> Formats::look(const std::map<std::string, std::string>& rows, bool is_leader) {
  std::string seen = value_of(rows, format_row);
  const uint64_t format = format_in(seen);
  know(format);
  if (incarnation_ != 0 && rows.contains(keys::tagged('s', incarnation_)) &&
      !rows.contains(formats_row(incarnation_))) {
    const auto again = co_await join(incarnation_, /*new_store=*/false);
    if (!again) log::error("rados: {}", again.error());
    co_return Result<void>{};
  }
  if (!is_leader || format >= format_newest) {
    all_know_since_.reset();
    co_return Result<void>{};
  }
  uint64_t newest = format_newest;
  for (const auto& [name, value] : rows) {
    const auto server = name.starts_with('s') && name.size() == 9 ? keys::parse_number(name.substr(1)) : std::nullopt;
    if (!server) continue;
    const std::string known = value_of(rows, formats_row(*server));
    newest = std::min(newest, known.size() == 16 ? keys::read_number(std::string_view(known).substr(8)) : 1);
  }
  if (newest <= format) {
    all_know_since_.reset();
    co_return Result<void>{};
  }
  if (!all_know_since_) all_know_since_ = SteadyClock::now();
  if (SteadyClock::now() - *all_know_since_ < rest_) co_return Result<void>{};
  co_return co_await raise(rows, std::move(seen), newest);
}

// Rows of servers that were given up go, too.
Task<Result<void>> Formats::raise(const std::map<std::string, std::string>& rows, std::string seen, uint64_t to) {
  const std::string ids_row(key_ids_row), ids = value_of(rows, ids_row);
  std::set<std::string> gone;
  for (const auto& [name, value] : rows) {
    if (name.starts_with('v') && name.size() == 9 && !rows.contains("s" + name.substr(1))) gone.insert(name);
  }
  librados::ObjectWriteOperation op;
  const std::map<std::string, std::pair<Buffer, int>> expected = {
      {format_row, {to_buffer(seen), LIBRADOS_CMPXATTR_OP_EQ}}, {ids_row, {to_buffer(ids), LIBRADOS_CMPXATTR_OP_EQ}}};
  op.omap_cmp(expected, nullptr);
  if (!gone.empty()) op.omap_rm_keys(gone);
  const std::map<std::string, Buffer> set = {{format_row, to_buffer(format_text(to))},
                                             {ids_row, to_buffer(with_line(ids, to))}};
  op.omap_set(set);
  const int code = co_await registry_.cluster().write(Cluster::Pool::index, std::string(servers_object), std::move(op));
  if (code == -ECANCELED) co_return Result<void>{};  // another server has joined: the next look
  if (code < 0) co_return std::unexpected(to_error(code, "rados: formats"));
  know(to);
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
