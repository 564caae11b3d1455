#include "store/rados/rados_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>

#include <algorithm>
#include <cerrno>
#include <set>
#include <thread>

#include "base/log.h"
#include "base/metrics.h"
#include "store/event.h"
#include "store/logic/rename.h"
#include "store/rados/engine.h"
#include "store/rados/rows/key_ids.h"
#include "store/rados/upkeep/tombstones.h"

namespace verbena::store::rados {
namespace {

constexpr size_t servers_max = 1000;  // living at once
constexpr size_t buckets_at_once = 32;
constexpr std::chrono::seconds start_patience{60};  // with a cluster that answers, but not everything in time
constexpr size_t keys_waiting_max = 16;             // one at a time waits

}  // namespace

Engine::Engine(const Options& options, std::unique_ptr<Cluster> connected)
    : clock_source(*options.clock),
      on_change(options.on_change),
      on_accounts(options.on_accounts),
      on_keys(options.on_keys),
      is_holder(options.read_leases),
      whole_only(options.whole_only),
      lease_rest(options.lease_rest),
      intent_lasts(options.intent_lasts),
      cluster(std::move(connected)),
      formats(registry, options.format_rest),
      splitter(registry, io, clock_source, options.split_rows),
      joiner(registry, splitter, formats, options.split_rows) {
  if (on_keys) files = std::make_unique<BlockingPool>(1, keys_waiting_max);
  splitter.set_small([this](uint64_t bucket, uint64_t tablet) { return joiner.look_at(bucket, tablet); });
}

Engine::~Engine() { close(); }

// An incarnation whose ids differ from those of all living servers.
Result<uint64_t> Engine::take_incarnation() {
  VB_ASSIGN(const auto rows, run(registry.all(std::string(servers_object), "s")));
  std::set<uint64_t> slots;
  for (const auto& [row, value] : rows) slots.insert(Ids::slot_of(keys::parse_number(row.substr(1)).value_or(0)));
  for (;;) {
    VB_ASSIGN(const uint64_t incarnation, run(registry.take_number()));
    if (!slots.contains(Ids::slot_of(incarnation)) || slots.size() >= servers_max) return incarnation;
  }
}

Task<Result<void>> Engine::look_into_tablet(BucketPtr bucket, size_t tablet, std::set<uint64_t> living) {
  std::string object = bucket->tablets[tablet].object;
  VB_CO_TRY(co_await book.take_over(std::move(object), living));
  VB_CO_TRY(co_await book.fold_joined(bucket, tablet, living));
  const uint64_t id = bucket->id, number = bucket->tablets[tablet].number;
  if (formats.current() >= format_of_fences && formats.all_know_it()) {
    VB_CO_TRY(co_await sweep_tablet(registry, std::move(bucket), tablet, clock_source.now_us(), std::move(living)));
  }
  co_return co_await joiner.look_at(id, number);
}

Task<Result<bool>> Engine::has_object(std::string object) {
  struct Reply {
    uint64_t size = 0;
    time_t modified = 0;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.stat(&reply->size, &reply->modified, &reply->code);
  const int code = co_await cluster->read(Cluster::Pool::index, std::move(object), std::move(op), reply);
  if (code == -ENOENT) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: object"));
  co_return true;
}

// Each server creates `root` before `servers`. Recreating a lost `root` would make an empty store, which hands out used
// numbers again.
std::expected<void, std::string> Engine::check_root() {
  const auto used = run(has_object(std::string(servers_object)));
  if (!used) return std::unexpected("the index pool: " + describe(used.error()));
  new_store = !*used;
  if (new_store) return check_new();
  const auto rooted = run(has_object(std::string(root_object)));
  if (!rooted) return std::unexpected("the index pool: " + describe(rooted.error()));
  if (*rooted) return {};
  return std::unexpected("the index pool has lost its object `" + std::string(root_object) +
                         "`, which names all buckets: see `ceph health`. Nothing is made in its place");
}

// A server makes that object before it takes a number in `root`, of which a row stays, whatever is removed; so does its
// mark there. Looked for again, as another first server may have made both since.
std::expected<void, std::string> Engine::check_new() {
  const auto named = run(registry.all(std::string(root_object), ""));
  if (!named && named.error() == Errc::not_found) return {};
  if (!named) return std::unexpected("the index pool: " + describe(named.error()));
  const auto marked = run(formats.is_marked());
  if (!marked) return std::unexpected("the index pool: " + describe(marked.error()));
  if (named->empty() && !*marked) return {};
  new_store = false;
  const auto used = run(has_object(std::string(servers_object)));
  if (!used) return std::unexpected("the index pool: " + describe(used.error()));
  if (*used) return {};
  return std::unexpected(format_in({}, /*marked=*/true).error());
}

std::expected<void, std::string> Engine::open(memory::Arena& arena) {
  thread = std::thread([this] { io.run(); });
  if (auto rooted = check_root(); !rooted) return rooted;
  librados::ObjectWriteOperation root;
  root.create(false);
  const int made = run(cluster->write(Cluster::Pool::index, std::string(root_object), std::move(root)));
  if (made < 0) return std::unexpected("the index pool takes no objects: " + describe(to_error(made, "rados")));
  librados::ObjectWriteOperation signs;
  signs.create(false);
  const int seen = run(cluster->write(Cluster::Pool::index, std::string(servers_object), std::move(signs)));
  if (seen < 0) return std::unexpected("the index pool takes no objects: " + describe(to_error(seen, "rados")));
  auto incarnation = take_incarnation();
  if (!incarnation) return std::unexpected("the index pool: " + describe(incarnation.error()));
  ids.set_incarnation(*incarnation);
  batcher.set_incarnation(*incarnation);
  book.begin(*incarnation, [this](const std::string& tablet) { return batcher.counted_in(tablet); });
  leader.emplace(*cluster, io, *incarnation);
  Garbage::Helpers helpers;
  helpers.is_leader = [this] { return leader->holds(); };
  helpers.look_into_tablet = [this](BucketPtr bucket, size_t tablet, std::set<uint64_t> living) {
    return look_into_tablet(std::move(bucket), tablet, std::move(living));
  };
  helpers.rescue = [this](uint64_t bucket, std::map<std::string, std::string> rows) {
    return events->rescue(bucket, std::move(rows));
  };
  helpers.look_at_formats = [this](const std::map<std::string, std::string>& rows, LeaseClock::time_point since) {
    return formats.look(rows, leader->holds(), since);
  };
  // That server's changes may not have been announced.
  helpers.server_gone = [this] { bus->tell_all_to_reload(); };
  garbage = std::make_shared<Garbage>(registry, io, *incarnation, std::move(helpers));
  if (auto signed_in = run(garbage->sign_in()); !signed_in) {
    run(garbage->sign_out());  // a sign without formats would count as an older server's
    return std::unexpected("the index pool: " + describe(signed_in.error()));
  }
  if (auto joined = run(formats.join(*incarnation, new_store)); !joined) {
    run(garbage->sign_out());
    return joined;
  }
  events.emplace(registry, io, *leader, [this] { return garbage->rounds(); });
  space.emplace(*cluster, garbage, arena);
  striped.emplace(*space);
  make_bus();
  read_leases = std::make_shared<ReadLeases>(registry, io, [this] { return leader->holds(); }, lease_rest);
  fresh = [this] {
    const auto now = LeaseClock::now();
    return bus->fresh(now) && formats.may_run(now);
  };
  is_sure = [this](std::string_view name) { return in_flight->is_sure(name); };
  settle = [this](std::string name) { return in_flight->settle(std::move(name)); };
  const RadosCatalogue::Parts parts{registry, *garbage, batcher,      splitter,   book,       *events,
                                    ends,     ids,      *read_leases, *in_flight, *late_calls};
  catalogue.emplace(parts, clock_source, fresh);
  keeps_usage = true;
  keeps_events = true;
  buckets.keep_ends(clock_source, [this] { return formats.current() >= format_of_ends; });
  rows = &*catalogue;
  blobs = &*striped;
  clock = &clock_source;
  signing = boost::asio::co_spawn(io, garbage->run_signs(), boost::asio::use_future);
  if (auto loaded = load_all(); !loaded) return std::unexpected("buckets: " + describe(loaded.error()));
  leading = boost::asio::co_spawn(io, leader->run(), boost::asio::use_future);
  counting = boost::asio::co_spawn(io, book.run(), boost::asio::use_future);
  telling = boost::asio::co_spawn(io, events->run(), boost::asio::use_future);
  collecting = boost::asio::co_spawn(io, garbage->run(), boost::asio::use_future);
  looking = boost::asio::co_spawn(io, garbage->run_rounds(), boost::asio::use_future);
  watching = boost::asio::co_spawn(io, bus->run(), boost::asio::use_future);
  if (is_holder) leasing = boost::asio::co_spawn(io, read_leases->run(), boost::asio::use_future);
  for (const auto until = deadline_in(start_patience); !bus->fresh();) {
    if (SteadyClock::now() > until) return std::unexpected("the cluster grants no watch of the index pool");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

// There may be thousands of buckets, and a call for each of their tablets. A cluster that is slow for a while, because
// it recovers, fails one of them: the process would end, and the next one would begin anew.
Result<void> Engine::load_all() {
  for (const auto until = deadline_in(start_patience);;) {
    const auto loaded = run(reload(InvalidationBus::everything));
    const bool may_pass = !loaded && (loaded.error() == Errc::service_unavailable || loaded.error() == Errc::slow_down);
    if (!may_pass || SteadyClock::now() > until) return loaded;
    log::warn("rados: the buckets could not be read yet: {}", describe(loaded.error()));
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
  }
}

void Engine::make_bus() {
  InFlightChanges::Helpers helpers;
  helpers.tell = [this](Notice notice) { return bus->tell(std::move(notice)); };
  helpers.read = [this](std::string name) { return reload_named(std::move(name)); };
  helpers.read_all = [this] { return reload_buckets(); };
  helpers.forget_kept = [this](std::string_view name) { read_leases->let_go_of_bucket(name); };
  helpers.on_change = [this](std::string_view name) { on_change(name); };
  helpers.fresh = [this] { return bus->fresh(); };
  in_flight = std::make_shared<InFlightChanges>(registry, io, intent_lasts, std::move(helpers));
  InvalidationBus::Subscriber subscriber;
  subscriber.hear = [this](Notice notice) { return hear(std::move(notice)); };
  subscriber.intents = [this] { return in_flight->told(); };
  subscriber.take_intents = [this](const std::vector<Intent>& intents) { return in_flight->take(intents); };
  subscriber.doubt_all = [this](bool marked) { in_flight->set_all(marked); };
  subscriber.look = [this] { in_flight->look(); };
  bus = std::make_shared<InvalidationBus>(*cluster, io, std::move(subscriber));
  late_calls.emplace(registry, io, [this](uint64_t bucket) { return bus->tell(bucket); });
}

void Engine::close() {
  if (!thread.joinable()) return;
  if (in_flight) in_flight->stop();
  if (late_calls) late_calls->stop();
  splitter.stop();
  joiner.stop();
  cluster->close();
  if (read_leases) read_leases->stop();
  if (leasing.valid()) leasing.get();
  if (watching.valid()) {
    bus->stop();
    watching.get();
  }
  if (signing.valid()) {
    garbage->stop();
    if (collecting.valid()) collecting.get();
    if (looking.valid()) looking.get();
    signing.get();
  }
  if (telling.valid()) {
    events->stop();
    telling.get();
  }
  if (counting.valid()) {
    book.stop();
    counting.get();
  }
  if (leading.valid()) {
    leader->stop();
    leading.get();
  }
  cluster->handle().watch_flush();
  cluster->wait_until_idle();
  if (garbage) run(garbage->remove_discarded());
  if (catalogue) catalogue->close();
  if (in_flight) in_flight->close();
  work.reset();
  thread.join();
}

Task<Result<void>> Engine::hear(Notice notice) {
  if (notice.kind == Notice::Kind::changed) co_return co_await reload(notice.bucket);
  co_return co_await in_flight->hear(std::move(notice));
}

Task<Result<void>> Engine::reload(uint64_t bucket) {
  if (bucket == InvalidationBus::accounts) {
    VB_CO_TRY(co_await reload_accounts());
  } else if (bucket == InvalidationBus::master_keys) {
    co_return co_await reload_keys();
  } else if (bucket == InvalidationBus::everything) {
    VB_CO_TRY(co_await reload_all());
    on_change({});
  } else {
    VB_CO_TRY(co_await reload_numbered(bucket));
  }
  co_return Result<void>{};
}

// A caller that waits for one bucket does not wait for all.
Task<Result<void>> Engine::reload_all() {
  VB_CO_TRY(co_await reload_keys());
  VB_CO_TRY(co_await reload_accounts());
  VB_CO_TRY(co_await reload_buckets());
  // This process may have been suspended so long that others took over its counts.
  batcher.recount();
  co_return Result<void>{};
}

Task<Result<void>> Engine::reload_buckets() {
  VB_CO_ASSIGN(auto named, co_await registry.all(std::string(root_object), "b"));
  std::set<uint64_t> there;
  NamedBuckets wanted;
  for (const auto& [row, value] : named) {
    const auto id = keys::parse_number(value);
    if (!id) co_return fail(Errc::corrupt_object, "rados: name of a bucket");
    there.insert(*id);
    wanted.emplace_back(row.substr(1), *id);
  }
  VB_CO_TRY(co_await reload_each(std::move(wanted)));
  for (const auto& known : buckets.all()) {
    if (!there.contains(known->id)) VB_CO_TRY(co_await reload_named(known->name));
  }
  co_return Result<void>{};
}

// Several at once: each takes some calls, there may be thousands, and the start waits for all.
Task<Result<void>> Engine::reload_each(NamedBuckets wanted) {
  if (wanted.empty()) co_return Result<void>{};
  struct All {
    NamedBuckets left;
    size_t busy;
    Result<void> result{};
  };
  auto initiate = [this](auto handler, NamedBuckets named) {
    auto shared = std::make_shared<decltype(handler)>(std::move(handler));
    const size_t busy = std::min(buckets_at_once, named.size());
    auto all = std::make_shared<All>(All{std::move(named), busy});
    const auto read = [this, all]() -> Task<Result<void>> {
      while (!all->left.empty()) {
        auto [name, id] = std::move(all->left.back());
        all->left.pop_back();
        std::string copy = name;
        VB_CO_TRY(co_await reload_locked(id, std::move(copy)));
        if (registry.find(id) == nullptr) VB_CO_TRY(co_await check_missing(std::move(name), id));
      }
      co_return Result<void>{};
    };
    for (size_t i = busy; i != 0; --i) {
      boost::asio::co_spawn(io, read, [this, shared, all](const std::exception_ptr& thrown, Result<void> result) {
        if (thrown) result = fail(Errc::internal, "rados: buckets");
        if (!result) {
          all->left.clear();
          all->result = std::move(result);
        }
        if (--all->busy == 0) boost::asio::post(io, [shared, all] { (*shared)(std::move(all->result)); });
      });
    }
  };
  co_return co_await boost::asio::async_initiate<const boost::asio::use_awaitable_t<>&, void(Result<void>)>(
      std::move(initiate), boost::asio::use_awaitable, std::move(wanted));
}

// Reloads of one bucket are serialized, so that the last one read wins. A name may belong to several buckets over time,
// and a bucket's name may not be known yet: so there are two locks, the name's first. Reloads of different buckets need
// no order.
Task<Result<void>> Engine::reload_numbered(uint64_t id) {
  auto state = co_await find_locked(id);
  if (!state && state.error() == Errc::no_such_bucket) co_return Result<void>{};
  if (!state) co_return std::unexpected(state.error());
  std::string name = (*state)->record.info.name;  // which never changes
  std::string copy = name;
  VB_CO_TRY(co_await reload_locked(id, std::move(copy)));
  on_change(name);
  co_return Result<void>{};
}

// Forgets a bucket that no longer exists.
Task<Result<BucketPtr>> Engine::find_locked(uint64_t id) {
  KeyLocks::Name lock(2, keys::number(id));
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await reloads.take(std::move(lock)));
  auto state = co_await registry.load(id);
  if (!state && state.error() == Errc::no_such_bucket) forget(id);
  co_return state;
}

Task<Result<void>> Engine::reload_locked(uint64_t id, std::string name) {
  KeyLocks::Name lock(0, std::move(name));
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await reloads.take(std::move(lock)));
  co_return co_await reload_one(id);
}

// The bucket that has the name now, or none.
Task<Result<void>> Engine::reload_named(std::string name) {
  KeyLocks::Name lock(0, name);
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await reloads.take(std::move(lock)));
  const std::string row = keys::bucket(name);
  VB_CO_ASSIGN(const std::string value, co_await registry.row(std::string(root_object), row));
  const auto id = keys::parse_number(value);
  if (!id && !value.empty()) co_return fail(Errc::corrupt_object, "rados: name of a bucket");
  const auto known = buckets.find(name);
  if (known && (!id || known->id != *id)) forget(*known);
  if (id) co_return co_await reload_one(*id);
  co_return Result<void>{};
}

// A bucket whose rows are lost is reported in the log, and clients get NoSuchBucket. A copy would silently omit it.
Task<Result<void>> Engine::check_missing(std::string name, uint64_t id) {
  auto removed = co_await registry.check_removed(std::move(name), id);
  if (!removed && !whole_only && removed.error() == Errc::corrupt_object) co_return Result<void>{};
  co_return removed;
}

void Engine::forget(const Bucket& bucket) {
  registry.forget(bucket.id);
  book.forget(bucket.id);
  const auto now = buckets.find(bucket.name);
  if (now && now->id == bucket.id) buckets.remove(bucket.name);
  on_change(bucket.name);
}

void Engine::forget(uint64_t id) {
  if (const auto known = buckets.find_id(id)) forget(*known);
}

// The caller holds the lock of the bucket's name.
Task<Result<void>> Engine::reload_one(uint64_t id) {
  KeyLocks::Name lock(2, keys::number(id));
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await reloads.take(std::move(lock)));
  auto state = co_await registry.load(id);
  if (!state && state.error() == Errc::no_such_bucket) {
    forget(id);
    co_return Result<void>{};
  }
  if (!state) co_return std::unexpected(state.error());
  auto documents = co_await registry.all(bucket_object(id), "c");
  if (!documents && documents.error() == Errc::not_found) co_return Result<void>{};  // removed since
  if (!documents) co_return std::unexpected(documents.error());
  const BucketRecord& record = (*state)->record;
  auto known = buckets.find(record.info.name);
  if (known && known->id == id) {
    // Objects without a version id get the id "null" then, which cached ones do not have.
    const bool renames = known->versioning.load() == Versioning::off && record.info.versioning != Versioning::off;
    known->set(record.info);
    if (renames) read_leases->let_go_of_bucket(known->name);
  } else {
    buckets.add(record);
    known = buckets.find(record.info.name);
    known->set_uncounted(true);
  }
  book.know(known);
  if (known->uncounted.load()) {
    auto looked = co_await book.look(id);
    // It is being removed, or a tablet is being split. Its usage is read again later.
    if (!looked && !(looked.error() == Errc::no_such_bucket)) co_return looked;
  }
  std::map<std::string, Document, std::less<>> all;
  for (auto& [row, bytes] : *documents) all[row.substr(1)] = std::make_shared<const std::string>(std::move(bytes));
  known->documents.replace_all(std::move(all));
  co_return Result<void>{};
}

std::expected<std::unique_ptr<RadosStore>, std::string> RadosStore::connect(const Options& options) {
  auto cluster = Cluster::connect({.conf = options.conf,
                                   .user = options.user,
                                   .pool = options.pool,
                                   .index_pool = options.index_pool,
                                   .name_space = options.name_space,
                                   .timeout = options.timeout});
  if (!cluster) return std::unexpected(cluster.error());
  auto engine = std::make_shared<Engine>(options, std::move(*cluster));
  if (auto opened = engine->open(*options.arena); !opened) return std::unexpected(opened.error());
  return std::unique_ptr<RadosStore>(new RadosStore(std::move(engine)));
}

RadosStore::RadosStore(std::shared_ptr<Engine> engine) : EngineStore(engine), engine_(std::move(engine)) {}
RadosStore::~RadosStore() { engine_->close(); }

// Until memory has all buckets as of a moment after the call.
Task<Result<void>> Engine::settle_names() {
  if (!fresh()) co_return fail(Errc::service_unavailable, "This server's view of the buckets may be out of date.");
  if (in_flight->intents().all()) co_return co_await in_flight->settle_all();
  for (const std::string& name : in_flight->intents().names()) VB_CO_TRY(co_await settle(name));
  co_return Result<void>{};
}

Task<Result<std::vector<BucketInfo>>> RadosStore::buckets() {
  auto engine = engine_;
  VB_CO_TRY(co_await engine->settle_names());
  co_return engine->buckets.list();
}

Task<Result<std::vector<BucketInfo>>> RadosStore::buckets_of(OwnersBuckets which) {
  auto engine = engine_;
  VB_CO_TRY(co_await engine->settle_names());
  co_return engine->buckets.of(which);
}

// Requests the owner's usage, so that other servers' counts are read soon.
Result<UsageNow> RadosStore::usage_now(std::string_view bucket) {
  VB_ASSIGN(const auto found, engine_->known_bucket(bucket));
  engine_->book.ask(found->owner);
  return found->usage_now();
}

Task<Result<Usage>> RadosStore::bucket_usage(std::string_view bucket) {
  auto engine = engine_;
  VB_CO_BUCKET(const auto found, engine, bucket);
  co_return co_await engine->book.read(found->id);
}

Task<Result<void>> RadosStore::announce(std::string_view bucket, AnnouncementPtr announcement) {
  auto engine = engine_;
  VB_CO_BUCKET(const auto found, engine, bucket);
  const int64_t now_us = engine->clock_source.now_us();
  const ObjectInfo nothing;
  const uint64_t sequence = engine->ids.next(0, now_us);
  VB_CO_ASSIGN(const auto rows, announcement->events({nothing, found->id, sequence, now_us}));
  std::vector<uint64_t> ids;
  for (size_t i = 0; i < rows.size(); ++i) ids.push_back(engine->ids.next(0, now_us));
  VB_CO_TRY(co_await engine->events->add(found->id, rows, std::move(ids)));
  announcement->committed(found->id, rows);
  co_return Result<void>{};
}

Task<Result<std::vector<std::string>>> RadosStore::event_queues() {
  auto engine = engine_;
  co_return co_await engine->events->queues();
}

Task<Result<std::vector<EventBacklog>>> RadosStore::event_backlog(std::string_view queue) {
  auto engine = engine_;
  std::string name(queue);
  co_return co_await engine->events->backlog(std::move(name));
}

Task<Result<std::vector<QueuedEvent>>> RadosStore::events(std::string_view queue, uint64_t bucket, uint64_t after,
                                                          size_t events_max, size_t bytes_max) {
  auto engine = engine_;
  std::string name(queue);
  co_return co_await engine->events->read(std::move(name), bucket, after, events_max, bytes_max);
}

Task<Result<void>> RadosStore::remove_events(std::string_view queue, uint64_t bucket, std::vector<uint64_t> ids) {
  auto engine = engine_;
  std::string name(queue);
  co_return co_await engine->events->remove(std::move(name), bucket, std::move(ids));
}

Task<Result<std::vector<EndedKey>>> RadosStore::ended(size_t max, const EndedKey* after) {
  auto engine = engine_;
  auto from = after == nullptr ? std::nullopt : std::optional(*after);
  const int64_t now_us = engine->clock_source.now_us();
  VB_CO_ASSIGN(auto found, co_await engine->ends.due(now_us, max, std::move(from)));
  name_buckets(*engine, found);
  co_return found;
}

Task<Result<void>> RadosStore::forget_end(EndedKey ended) {
  // The rows of a bucket that was removed go with its tablets.
  const auto bucket = engine_->buckets.find(ended.bucket);
  if (bucket == nullptr || bucket->id != ended.bucket_id) co_return Result<void>{};
  co_return co_await EngineStore::forget_end(std::move(ended));
}

Task<Result<ObjectInfo>> RadosStore::rename(std::string_view bucket, RenameRequest request) {
  auto engine = engine_;
  VB_CO_BUCKET(auto found, engine, bucket);
  VB_CO_TRY(check_key(request.from));
  VB_CO_TRY(check_key(request.to));
  std::string from = request.from, to = request.to;
  auto renaming = std::make_shared<Renaming>(Renaming{found, std::move(request)});
  Change change = rename_change(renaming);
  VB_CO_TRY(co_await engine->catalogue->commit_pair(std::move(change), std::move(from), std::move(to)));
  co_return std::move(renaming->info);
}

Task<Result<std::shared_ptr<ObjectReader>>> RadosStore::open_unless(std::string_view bucket, std::string_view key,
                                                                    uint64_t stamp) {
  auto engine = engine_;
  VB_CO_BUCKET(auto found, engine, bucket);
  std::string name(key);
  co_return co_await engine->catalogue->open_unless(*engine->striped, std::move(found), std::move(name), stamp);
}

// Rights to an object are known only while the watch is valid: without it nothing is served from memory.
uint64_t RadosStore::term() const {
  const auto now = LeaseClock::now();
  return engine_->bus->fresh(now) && engine_->formats.may_run(now) ? engine_->read_leases->term(now) : 0;
}

void RadosStore::keep(std::string_view bucket, std::string_view key, uint64_t stamp,
                      std::function<void(uint64_t term)> kept) {
  static auto& begun = metrics::counter("verbena_rados_read_leases_total", "Read leases that this server took on keys");
  const uint64_t term = this->term();
  const auto found = engine_->find_bucket(bucket);
  if (term == 0 || !found || !engine_->read_leases->may_keep((*found)->id, key)) return;
  if (engine_->being_leased.fetch_add(1) >= Engine::being_leased_max) {
    --engine_->being_leased;
    return;
  }
  auto done = [engine = engine_.get(), kept = std::move(kept), term](const std::exception_ptr& thrown,
                                                                     Result<void> written) {
    --engine->being_leased;
    if (thrown || !written) return;
    begun.add();
    kept(term);
  };
  auto writing = engine_->catalogue->keep((*found)->id, std::string(key), stamp, term);
  boost::asio::co_spawn(engine_->io, std::move(writing), std::move(done));
}

void RadosStore::listen(Listener* listener) { engine_->read_leases->listen(listener); }

bool RadosStore::may_keep(std::string_view bucket) const { return engine_->in_flight->is_sure(bucket); }

uint64_t RadosStore::leader_term() const { return engine_->leader->term(); }

Result<std::optional<std::string>> RadosStore::read_accounts() { return engine_->run(engine_->read_accounts()); }
Result<bool> RadosStore::replace_accounts(const std::optional<std::string>& before, const std::string& text) {
  return engine_->run(engine_->replace_accounts(before, text));
}
Result<std::optional<std::string>> RadosStore::read_key_ids() {
  return engine_->run(read_keys_row(engine_->registry, std::string(key_ids_row)));
}
Result<bool> RadosStore::replace_key_ids(const std::optional<std::string>& before, const std::string& text) {
  return engine_->run(engine_->replace_keys(key_ids_row, before, text));
}
Result<std::optional<std::string>> RadosStore::read_sealed_keys() {
  return engine_->run(read_keys_row(engine_->registry, std::string(sealed_keys_row)));
}
Result<bool> RadosStore::replace_sealed_keys(const std::optional<std::string>& before, const std::string& text) {
  return engine_->run(engine_->replace_keys(sealed_keys_row, before, text));
}
bool RadosStore::settled() const { return engine_->garbage->settled(); }
uint64_t RadosStore::calls() const { return engine_->cluster->calls(); }

}  // namespace verbena::store::rados
