#include "store/rados/rows/event_rows.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/bytes.h"
#include "base/log.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr uint64_t rows_of_page = 1000;
constexpr uint64_t rows_of_look = 2000;  // for all objects of a bucket together
constexpr size_t rows_at_once = 500;     // changed by one call
const std::set<std::string> nothing;

// A row's key in the events' object: a letter, the queue, the bucket.
std::string row_of(char letter, std::string_view queue, uint64_t bucket) {
  std::string row = std::string(1, letter).append(queue).append(1, '\0');
  keys::append_number(row, bucket, 8);
  return row;
}

// Behind the prefix: id, size.
struct Parsed {
  uint64_t id = 0, size = 0;
};
std::optional<Parsed> parse(std::string_view row, size_t prefix) {
  if (row.size() != prefix + 12) return std::nullopt;
  return Parsed{keys::read_number(row.substr(prefix, 8)), keys::read_number(row.substr(prefix + 8))};
}

// The prefix of the events of a bucket's queue in that object.
std::string prefix_in(const std::string& object, const std::string& queue, uint64_t bucket) {
  return object == events_object ? row_of('e', queue, bucket) : event_prefix(queue);
}

}  // namespace

std::string event_prefix(std::string_view queue) { return std::string("e").append(queue).append(1, '\0'); }

std::string event_row(std::string_view queue, uint64_t id, size_t size) {
  std::string row = event_prefix(queue);
  keys::append_number(row, id, 8);
  keys::append_number(row, size, 4);
  return row;
}

void EventRows::left(const std::string& queue, uint64_t bucket) {
  const std::lock_guard lock(mutex_);
  left_.emplace(queue, bucket);
}

Task<Result<void>> EventRows::change(Rows sets, std::set<std::string> gone) {
  librados::ObjectWriteOperation op;
  op.create(false);
  if (!gone.empty()) op.omap_rm_keys(gone);
  std::map<std::string, Buffer> buffers;
  size_t bytes = 0;
  for (const auto& [row, value] : sets) {
    buffers.emplace(row, to_buffer(value));
    bytes += value.size();
  }
  if (!buffers.empty()) op.omap_set(buffers);
  const int code = co_await registry_.cluster().write(Pool::index, std::string(events_object), std::move(op), bytes);
  if (code < 0) co_return std::unexpected(to_error(code, "rados: events"));
  co_return Result<void>{};
}

Task<Result<void>> EventRows::add(uint64_t bucket, std::vector<EventRow> events, std::vector<uint64_t> ids) {
  Rows rows;
  for (size_t i = 0; i < events.size(); ++i) {
    std::string row = row_of('e', events[i].queue, bucket);
    keys::append_number(row, ids[i], 8);
    keys::append_number(row, events[i].record.size(), 4);
    rows.emplace(std::move(row), events[i].record);
  }
  VB_CO_TRY(co_await change(std::move(rows), nothing));
  for (const EventRow& event : events) left(event.queue, bucket);
  co_return Result<void>{};
}

Task<Result<void>> EventRows::rescue(uint64_t bucket, std::map<std::string, std::string> rows) {
  Rows kept;
  std::set<std::string> queues;
  for (auto& [row, value] : rows) {
    const size_t end = row.find('\0');
    if (end == std::string::npos || !parse(row, end + 1)) continue;
    queues.insert(row.substr(1, end - 1));
    kept.emplace(row_of('e', row.substr(1, end - 1), bucket) + row.substr(end + 1), std::move(value));
  }
  VB_CO_TRY(co_await change(std::move(kept), nothing));
  for (const std::string& queue : queues) left(queue, bucket);
  co_return Result<void>{};
}

Task<> EventRows::tell() {
  std::set<Name> names;
  {
    const std::lock_guard lock(mutex_);
    names.swap(left_);
  }
  if (names.empty()) co_return;
  std::byte token[8];
  fill_random(token);
  Rows rows;
  for (const auto& [queue, bucket] : names) rows.emplace(row_of('h', queue, bucket), as_text(token));
  if (auto told = co_await change(std::move(rows), nothing); told) co_return;
  const std::lock_guard lock(mutex_);
  left_.merge(names);
}

Task<> EventRows::run() {
  while (!stopping_) {
    timer_.expires_after(tell_every);
    boost::system::error_code woken;
    if (!stopping_) co_await timer_.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, woken));
    // The leader knows its own events without a hint.
    if (!leader_.holds() && registry_.cluster().may_write()) co_await tell();
  }
  co_await tell();
}

void EventRows::stop() {
  stopping_ = true;
  boost::asio::post(timer_.get_executor(), [this] { timer_.cancel(); });
}

Task<Result<EventRows::Rows>> EventRows::of_all(std::string prefix) {
  auto rows = co_await registry_.all(std::string(events_object), std::move(prefix));
  if (!rows && rows.error() == Errc::not_found) co_return Rows{};
  co_return rows;
}

Task<Result<std::vector<std::string>>> EventRows::objects_of(uint64_t bucket) {
  std::vector<std::string> objects;
  auto tablets = co_await registry_.all(bucket_object(bucket), "t");
  if (!tablets && !(tablets.error() == Errc::not_found)) co_return std::unexpected(tablets.error());
  if (tablets) {
    for (const auto& [low, number] : *tablets) {
      objects.push_back(tablet_object(bucket, keys::parse_number(number).value_or(0)));
    }
  }
  // Read last: events are here before they leave a tablet.
  objects.emplace_back(events_object);
  co_return objects;
}

Task<Result<bool>> EventRows::page(std::string object, std::string prefix, std::string after,
                                   std::vector<std::string>& into) {
  struct Reply {
    std::set<std::string> rows;
    bool more = false;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.omap_get_keys2(after, rows_of_page, &reply->rows, &reply->more, &reply->code);
  const int code = co_await registry_.cluster().read(Pool::index, std::move(object), std::move(op), reply);
  if (code == -ENOENT) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: events"));
  for (const std::string& row : reply->rows) {
    if (!row.starts_with(prefix)) co_return false;
    into.push_back(row);
  }
  co_return reply->more && !reply->rows.empty();
}

// From queue to queue: the OSD skips the rows in between.
Task<Result<void>> EventRows::names_in(std::string object, char letter, std::set<std::string>& names) {
  const std::string prefix(1, letter);
  for (std::string after = prefix;;) {
    auto reply = std::make_shared<OmapReply>();
    librados::ObjectReadOperation op;
    op.omap_get_vals2(after, prefix, 1, &reply->rows, &reply->more, &reply->rows_code);
    const int code = co_await registry_.cluster().read(Pool::index, object, std::move(op), reply);
    if (code == -ENOENT || (code >= 0 && reply->rows.empty())) co_return Result<void>{};
    if (code < 0) co_return std::unexpected(to_error(code, "rados: events"));
    const std::string& row = reply->rows.begin()->first;
    const std::string queue = row.substr(1, row.find('\0') - 1);
    names.insert(queue);
    after = prefix + queue + '\1';
  }
}

Task<Result<void>> EventRows::names_in_tablets(std::set<std::string>& names) {
  VB_CO_ASSIGN(const auto root, co_await registry_.all(std::string(root_object), ""));
  std::set<uint64_t> buckets;
  for (const auto& [row, value] : root) {
    if (row.starts_with('b')) buckets.insert(keys::parse_number(value).value_or(0));
    if (row.starts_with('x') && row.size() == 9) buckets.insert(keys::read_number(std::string_view(row).substr(1)));
  }
  for (const uint64_t bucket : buckets) {
    VB_CO_ASSIGN(const auto objects, co_await objects_of(bucket));
    for (const std::string& object : objects) {
      if (object != events_object) VB_CO_TRY(co_await names_in(object, 'e', names));
    }
  }
  co_return Result<void>{};
}

Task<Result<std::vector<std::string>>> EventRows::queues() {
  std::set<std::string> names;
  if (const uint64_t term = leader_.term(); term != 0) {
    const uint64_t rounds = rounds_();
    bool look = false;
    {
      const std::lock_guard lock(mutex_);
      look = std::exchange(asked_before_, true) && (named_term_ != term || named_rounds_ != rounds);
    }
    if (look) {
      std::set<std::string> found;
      VB_CO_TRY(co_await names_in_tablets(found));
      const std::lock_guard lock(mutex_);
      named_ = std::move(found);
      named_term_ = term;
      named_rounds_ = rounds;
    }
    const std::lock_guard lock(mutex_);
    for (const auto& [queue, bucket] : left_) named_.insert(queue);
    names = named_;
  }
  for (const char letter : {'e', 'h', 'w'}) VB_CO_TRY(co_await names_in(std::string(events_object), letter, names));
  co_return std::vector<std::string>(names.begin(), names.end());
}

// Also removed buckets with events.
Task<Result<std::set<uint64_t>>> EventRows::all_buckets(std::string queue) {
  std::set<uint64_t> buckets;
  VB_CO_ASSIGN(const auto root, co_await registry_.all(std::string(root_object), ""));
  for (const auto& [row, value] : root) {
    if (row.starts_with('b')) buckets.insert(keys::parse_number(value).value_or(0));
    if (row.starts_with('x') && row.size() == 9) buckets.insert(keys::read_number(std::string_view(row).substr(1)));
  }
  const std::string prefix = event_prefix(queue);
  for (std::string after = prefix;;) {
    std::vector<std::string> rows;
    VB_CO_ASSIGN(const bool more, co_await page(std::string(events_object), prefix, after, rows));
    for (const std::string& row : rows) {
      buckets.insert(keys::read_number(std::string_view(row).substr(prefix.size(), 8)));
    }
    if (!more || rows.empty()) co_return buckets;
    after = rows.back();
  }
}

Task<Result<EventRows::Amount>> EventRows::count(std::string queue, uint64_t bucket) {
  Amount amount;
  VB_CO_ASSIGN(const auto objects, co_await objects_of(bucket));
  for (const std::string& object : objects) {
    const std::string prefix = prefix_in(object, queue, bucket);
    for (std::string after = prefix;;) {
      std::vector<std::string> rows;
      VB_CO_ASSIGN(const bool more, co_await page(object, prefix, after, rows));
      for (const std::string& row : rows) {
        const auto parsed = parse(row, prefix.size());
        if (!parsed) co_return fail(Errc::corrupt_object, "rados: event");
        ++amount.events;
        amount.bytes += parsed->size;
        amount.objects.insert(object);
      }
      if (!more || rows.empty()) break;
      after = rows.back();
    }
  }
  co_return amount;
}

// A server that was frozen meanwhile, so that another one took over and counted, takes away no hint and forgets none of
// its own changes: they may be later than that count, and nothing else would tell the new leader of them.
Task<Result<bool>> EventRows::recount(std::string queue, Known& known, uint64_t term) {
  // A copy of the current ones: later ones are for the next call.
  std::set<uint64_t> buckets;
  {
    const std::lock_guard lock(mutex_);
    for (auto it = left_.lower_bound({queue, 0}); it != left_.end() && it->first == queue; it = left_.erase(it)) {
      buckets.insert(it->second);
    }
  }
  auto done = co_await recount_these(queue, known, buckets, term);
  if (done && *done) co_return done;
  const std::lock_guard lock(mutex_);
  for (const uint64_t bucket : buckets) left_.emplace(queue, bucket);
  co_return done;
}

// Adds to `buckets` those that others know of. After an error, or where the term has ended, some may have been counted.
Task<Result<bool>> EventRows::recount_these(std::string queue, Known& known, std::set<uint64_t>& buckets,
                                            uint64_t term) {
  const uint64_t rounds = rounds_();
  VB_CO_ASSIGN(const Rows hints, co_await of_all(row_of('h', queue, 0).substr(0, queue.size() + 2)));
  for (const auto& [row, token] : hints)
    buckets.insert(keys::read_number(std::string_view(row).substr(row.size() - 8)));
  const bool all = known.term != term || known.rounds != rounds;
  if (all) {
    VB_CO_ASSIGN(auto there, co_await all_buckets(queue));
    for (const auto& [bucket, amount] : known.buckets) there.insert(bucket);
    buckets.merge(there);
  }
  for (const uint64_t bucket : buckets) {
    VB_CO_ASSIGN(Amount counted, co_await count(queue, bucket));
    if (counted.events == 0) {
      known.buckets.erase(bucket);
    } else {
      known.buckets.insert_or_assign(bucket, std::move(counted));
    }
  }
  if (all) {
    VB_CO_ASSIGN(const Rows told, co_await of_all(row_of('w', queue, 0).substr(0, queue.size() + 2)));
    known.told.clear();
    for (const auto& [row, value] : told) {
      known.told.emplace(keys::read_number(std::string_view(row).substr(row.size() - 8)), value);
    }
    known.term = term;
    known.rounds = rounds;
  }
  if (leader_.term() != term) co_return false;
  // A hint that was renewed meanwhile has another token, and stays.
  for (const auto& [row, token] : hints) {
    librados::ObjectWriteOperation op;
    const std::map<std::string, std::pair<Buffer, int>> expected = {{row, {to_buffer(token), LIBRADOS_CMPXATTR_OP_EQ}}};
    op.omap_cmp(expected, nullptr);
    op.omap_rm_keys({row});
    (void)co_await registry_.cluster().write(Pool::index, std::string(events_object), std::move(op));
  }
  co_return true;
}

// Not counts of an earlier term: the later leader has reported its own since. A row that a former leader had sent and
// that comes after that stays until the next round of looking for leftovers, ten minutes at most, since that is when
// `told` is read again: so long other servers see a queue fuller, or emptier, than it is. Until a call has ended well
// its rows are as they were or as they were to be: `told` has no value for them then, so that the next report writes
// them again.
Task<Result<void>> EventRows::publish(std::string queue, Known& known) {
  std::map<uint64_t, std::string> changed;  // empty: there are no events any more
  for (const auto& [bucket, amount] : known.buckets) {
    std::string value = keys::number(amount.events) + keys::number(amount.bytes);
    const auto told = known.told.find(bucket);
    if (told == known.told.end() || told->second != value) changed.emplace(bucket, std::move(value));
  }
  for (const auto& [bucket, value] : known.told) {
    if (!known.buckets.contains(bucket)) changed.emplace(bucket, std::string());
  }
  for (auto next = changed.begin(); next != changed.end();) {
    if (leader_.term() != known.term) co_return Result<void>{};
    const auto first = next;
    Rows sets;
    std::set<std::string> gone;
    for (; next != changed.end() && sets.size() + gone.size() < rows_at_once; ++next) {
      const auto& [bucket, value] = *next;
      known.told[bucket].clear();
      if (value.empty()) {
        gone.insert(row_of('w', queue, bucket));
      } else {
        sets.emplace(row_of('w', queue, bucket), value);
      }
    }
    VB_CO_TRY(co_await change(std::move(sets), std::move(gone)));
    for (auto done = first; done != next; ++done) {
      if (done->second.empty()) {
        known.told.erase(done->first);
      } else {
        known.told[done->first] = done->second;
      }
    }
  }
  co_return Result<void>{};
}

Task<Result<std::vector<EventBacklog>>> EventRows::as_told(std::string queue) {
  std::vector<EventBacklog> backlog;
  VB_CO_ASSIGN(const Rows told, co_await of_all(row_of('w', queue, 0).substr(0, queue.size() + 2)));
  for (const auto& [row, value] : told) {
    if (value.size() != 16) co_return fail(Errc::corrupt_object, "rados: events");
    backlog.push_back({keys::read_number(std::string_view(row).substr(row.size() - 8)),
                       keys::read_number(std::string_view(value).substr(0, 8)),
                       keys::read_number(std::string_view(value).substr(8))});
  }
  co_return backlog;
}

Task<Result<std::vector<EventBacklog>>> EventRows::backlog(std::string queue) {
  const uint64_t term = leader_.term();
  if (term == 0) co_return co_await as_told(std::move(queue));
  Known* known = nullptr;
  {
    const std::lock_guard lock(mutex_);
    known = &known_[queue];
  }
  VB_CO_ASSIGN(const bool counted, co_await recount(queue, *known, term));
  if (!counted) co_return co_await as_told(std::move(queue));
  VB_CO_TRY(co_await publish(queue, *known));
  std::vector<EventBacklog> backlog;
  for (const auto& [bucket, amount] : known->buckets) backlog.push_back({bucket, amount.events, amount.bytes});
  if (backlog.empty()) {
    const std::lock_guard lock(mutex_);
    named_.erase(queue);
  }
  co_return backlog;
}

// Several objects are read one after the other, but the result keeps the order of each key: if the later of two events
// of a key is found, the earlier one is found too, or has been removed.
//
// Both in one object: reading an object is one moment, and the earlier event was committed before. The later one in
// another tablet: a split made that tablet after the earlier event was committed, and leaves events in place; count()
// lists a bucket's tablets before it reads them, so if it has seen the new tablet it has seen the earlier event in the
// old one. A bucket being swept: a tablet's events are in the events' object before the tablet is removed, and that
// object is read last.
//
// If an object has more rows than were requested, only those up to the last one are known, so later ones of other
// objects are left out.
Task<Result<std::vector<QueuedEvent>>> EventRows::read(std::string queue, uint64_t bucket, uint64_t after,
                                                       size_t events_max, size_t bytes_max) {
  std::vector<std::string> objects;
  {
    const std::lock_guard lock(mutex_);
    const auto& buckets = known_[queue].buckets;
    if (const auto found = buckets.find(bucket); found != buckets.end()) {
      std::ranges::copy_if(found->second.objects, std::back_inserter(objects),
                           [](const std::string& object) { return object != events_object; });
    }
  }
  objects.emplace_back(events_object);
  const uint64_t rows_max = std::min<uint64_t>({events_max, rows_of_page, rows_of_look / objects.size() + 1});
  std::map<uint64_t, std::string> found;
  uint64_t known_up_to = UINT64_MAX;
  for (const std::string& object : objects) {
    const std::string prefix = prefix_in(object, queue, bucket);
    const std::string behind = prefix + keys::number(after) + std::string(5, '\xff');
    auto reply = std::make_shared<OmapReply>();
    librados::ObjectReadOperation op;
    op.omap_get_vals2(behind, prefix, rows_max, &reply->rows, &reply->more, &reply->rows_code);
    const int code = co_await registry_.cluster().read(Pool::index, object, std::move(op), reply);
    if (code == -ENOENT) continue;
    if (code < 0) co_return std::unexpected(to_error(code, "rados: events"));
    uint64_t last = after;
    for (auto& [row, value] : reply->rows) {
      const auto parsed = parse(row, prefix.size());
      if (!parsed) co_return fail(Errc::corrupt_object, "rados: event");
      last = parsed->id;
      found.emplace(parsed->id, to_text(value));
    }
    if (reply->more) known_up_to = std::min(known_up_to, last);
  }
  std::vector<QueuedEvent> events;
  size_t bytes = 0;
  for (auto& [id, record] : found) {
    bytes += record.size();
    if (id > known_up_to || events.size() == events_max || (bytes > bytes_max && !events.empty())) break;
    events.push_back({id, std::move(record)});
  }
  co_return events;
}

Task<Result<void>> EventRows::remove(std::string queue, uint64_t bucket, std::vector<uint64_t> ids) {
  if (ids.empty()) co_return Result<void>{};
  const std::set<uint64_t> wanted(ids.begin(), ids.end());
  VB_CO_ASSIGN(const auto objects, co_await objects_of(bucket));
  for (const std::string& object : objects) {
    const std::string prefix = prefix_in(object, queue, bucket);
    std::set<std::string> gone;
    // Inserted behind all smaller ones.
    std::string after = prefix + keys::number(*wanted.begin() - 1) + std::string(5, '\xff');
    for (bool more = true, past = false; more && !past;) {
      std::vector<std::string> rows;
      VB_CO_ASSIGN(more, co_await page(object, prefix, after, rows));
      for (const std::string& row : rows) {
        const auto parsed = parse(row, prefix.size());
        if (!parsed) co_return fail(Errc::corrupt_object, "rados: event");
        if (wanted.contains(parsed->id)) gone.insert(row);
        past |= parsed->id > *wanted.rbegin();
      }
      if (rows.empty()) break;
      after = rows.back();
    }
    if (gone.empty()) continue;
    librados::ObjectWriteOperation op;
    op.assert_exists();
    op.omap_rm_keys(gone);
    const int code = co_await registry_.cluster().write(Pool::index, object, std::move(op));
    if (code < 0 && code != -ENOENT) co_return std::unexpected(to_error(code, "rados: events"));
  }
  left(queue, bucket);
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
