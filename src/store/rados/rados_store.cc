#include "store/rados/rados_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/use_future.hpp>

#include <cerrno>
#include <set>
#include <thread>

#include "base/checksum.h"
#include "base/log.h"
#include "store/rados/engine.h"
#include "store/rados/survey.h"

namespace verbena::store::rados {
namespace {

constexpr uint64_t accounts_max = 64 * MiB;

}  // namespace

Engine::Engine(const Options& options, std::unique_ptr<Cluster> connected)
    : clock_source(*options.clock),
      on_change(options.on_change),
      on_accounts(options.on_accounts),
      cluster(std::move(connected)),
      splitter(registry, io, options.split_rows) {}

Engine::~Engine() { close(); }

std::expected<void, std::string> Engine::open(memory::Arena& arena) {
  thread = std::thread([this] { io.run(); });
  librados::ObjectWriteOperation root;
  root.create(false);
  const int made = run(cluster->write(Cluster::Pool::index, std::string(root_object), std::move(root)));
  if (made < 0) return std::unexpected("the index pool takes no objects: " + describe(to_error(made, "rados")));
  librados::ObjectWriteOperation signs;
  signs.create(false);
  const int seen = run(cluster->write(Cluster::Pool::index, std::string(servers_object), std::move(signs)));
  if (seen < 0) return std::unexpected("the index pool takes no objects: " + describe(to_error(seen, "rados")));
  auto incarnation = run(registry.take_number());
  if (!incarnation) return std::unexpected("the index pool: " + describe(incarnation.error()));
  garbage = std::make_shared<Garbage>(registry, io, *incarnation);
  space.emplace(*cluster, garbage, arena);
  striped.emplace(*space);
  Neighbours::Hear hear = [this](uint64_t bucket) { return reload(bucket); };
  neighbours = std::make_shared<Neighbours>(*cluster, io, std::move(hear));
  RadosCatalogue::Tell tell = [this](uint64_t bucket) { return neighbours->tell(bucket); };
  fresh = [this] { return neighbours->fresh(); };
  catalogue.emplace(registry, *garbage, batcher, splitter, clock_source, std::move(tell), fresh);
  rows = &*catalogue;
  blobs = &*striped;
  clock = &clock_source;
  if (auto loaded = run(reload(Neighbours::everything)); !loaded) {
    return std::unexpected("buckets: " + describe(loaded.error()));
  }
  collecting = boost::asio::co_spawn(io, garbage->run(), boost::asio::use_future);
  watching = boost::asio::co_spawn(io, neighbours->run(), boost::asio::use_future);
  for (const auto until = deadline_in(cluster->options().timeout * 2); !neighbours->fresh();) {
    if (SteadyClock::now() > until) return std::unexpected("the cluster grants no watch of the index pool");
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return {};
}

void Engine::close() {
  if (!thread.joinable()) return;
  splitter.stop();
  cluster->close();
  if (watching.valid()) {
    neighbours->stop();
    watching.get();
  }
  if (collecting.valid()) {
    garbage->stop();
    collecting.get();
  }
  cluster->handle().watch_flush();
  cluster->wait_until_idle();
  if (catalogue) catalogue->close();
  guard.reset();
  thread.join();
}

// One after the other, so that what is read last is what is kept.
Task<Result<void>> Engine::reload(uint64_t bucket) {
  KeyLocks::Name name(0, "");
  VB_CO_ASSIGN(const KeyLocks::Held held, co_await reloads.take(std::move(name)));
  if (bucket == Neighbours::accounts) {
    VB_CO_TRY(co_await reload_accounts());
  } else if (bucket != Neighbours::everything) {
    VB_CO_TRY(co_await reload_one(bucket));
  } else {
    VB_CO_TRY(co_await reload_accounts());
    VB_CO_ASSIGN(auto named, co_await registry.all(std::string(root_object), "b"));
    std::set<uint64_t> there;
    for (const auto& [row, value] : named) {
      const auto id = keys::parse_number(value);
      if (!id) co_return fail(Errc::corrupt_object, "rados: name of a bucket");
      there.insert(*id);
      VB_CO_TRY(co_await reload_one(*id));
    }
    for (const auto& known : buckets.all()) {
      if (!there.contains(known->id)) forget(*known);
    }
  }
  on_change();
  co_return Result<void>{};
}

Task<Result<void>> Engine::reload_accounts() {
  VB_CO_ASSIGN(const auto text, co_await read_accounts());
  if (!on_accounts(text)) co_return fail(Errc::corrupt_object, "rados: accounts");
  co_return Result<void>{};
}

Task<Result<std::optional<std::string>>> Engine::read_accounts() {
  struct Reply {
    Buffer text;
    int code = 0;
  };
  auto reply = std::make_shared<Reply>();
  librados::ObjectReadOperation op;
  op.read(0, accounts_max, &reply->text, &reply->code);
  const int code = co_await cluster->read(Cluster::Pool::index, std::string(accounts_object), std::move(op), reply);
  if (code == -ENOENT) co_return std::nullopt;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: accounts"));
  co_return to_text(reply->text);
}

// By the digest of what is there, which lies beside it.
Task<Result<bool>> Engine::replace_accounts(std::optional<std::string> before, std::string text) {
  if (text.size() > accounts_max) co_return fail(Errc::limit_exceeded, "rados: accounts");
  librados::ObjectWriteOperation op;
  if (before) {
    op.cmpxattr("h", LIBRADOS_CMPXATTR_OP_EQ, to_buffer(sha256(as_bytes(*before))));
  } else {
    op.create(true);
  }
  op.write_full(to_buffer(text));
  op.setxattr("h", to_buffer(sha256(as_bytes(text))));
  const int code =
      co_await cluster->write(Cluster::Pool::index, std::string(accounts_object), std::move(op), text.size());
  if (code == -ECANCELED || code == -EEXIST) co_return false;
  if (code < 0) co_return std::unexpected(to_error(code, "rados: accounts"));
  VB_CO_TRY(co_await neighbours->tell(Neighbours::accounts));
  co_return true;
}

void Engine::forget(const Bucket& bucket) {
  registry.forget(bucket.id);
  const auto now = buckets.find(bucket.name);
  if (now && now->id == bucket.id) buckets.remove(bucket.name);
}

Task<Result<void>> Engine::reload_one(uint64_t id) {
  auto state = co_await registry.load(id);
  if (!state && state.error() == Errc::no_such_bucket) {
    for (const auto& known : buckets.all()) {
      if (known->id == id) forget(*known);
    }
    co_return Result<void>{};
  }
  if (!state) co_return std::unexpected(state.error());
  auto documents = co_await registry.all(bucket_object(id), "c");
  if (!documents && documents.error() == Errc::not_found) co_return Result<void>{};  // it has gone since
  if (!documents) co_return std::unexpected(documents.error());
  const BucketRecord& record = (*state)->record;
  auto known = buckets.find(record.info.name);
  if (known && known->id == id) {
    known->set(record.info);
  } else {
    buckets.add(record);
    known = buckets.find(record.info.name);
  }
  for (const std::string& name : known->documents.names()) {
    if (!documents->contains("c" + name)) known->documents.remove(name);
  }
  for (auto& [name, bytes] : *documents) {
    known->documents.set(name.substr(1), std::make_shared<const std::string>(std::move(bytes)));
  }
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

Result<std::optional<std::string>> RadosStore::read_accounts() { return engine_->run(engine_->read_accounts()); }
Result<bool> RadosStore::replace_accounts(const std::optional<std::string>& before, const std::string& text) {
  return engine_->run(engine_->replace_accounts(before, text));
}
Result<Survey> RadosStore::survey() { return survey_store(*engine_); }
bool RadosStore::settled() const { return engine_->garbage->settled(); }
uint64_t RadosStore::calls() const { return engine_->cluster->calls(); }
std::shared_ptr<Context> RadosStore::context() const { return engine_; }

}  // namespace verbena::store::rados
