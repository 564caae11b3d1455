#include "simulator/world.h"

#include <fmt/format.h>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>

#include <cstring>

#include "call/call.h"
#include "memory/text_source.h"
#include "s3/objects/read.h"
#include "s3/workers/lifecycle_worker.h"
#include "simulator/scheduler.h"
#include "store/local/fsck.h"

namespace verbena::simulator {
namespace {

using store::local::FaultyFileSystem;

constexpr int64_t day_s = 1;  // of the lifecycle
constexpr const char* plain = "plain";
constexpr const char* versioned = "versioned";
constexpr std::string_view rules =
    "<LifecycleConfiguration><Rule><ID>r</ID><Status>Enabled</Status><Filter/><NoncurrentVersionExpiration>"
    "<NoncurrentDays>1</NoncurrentDays></NoncurrentVersionExpiration></Rule></LifecycleConfiguration>";

template <class T>
T run(boost::asio::io_context& loop, Task<T> task) {
  std::optional<T> result;
  boost::asio::co_spawn(loop, std::move(task), [&](std::exception_ptr, T value) { result = std::move(value); });
  loop.restart();
  loop.run();
  return std::move(*result);
}

// Its first bytes name the value.
std::string bytes_of(uint32_t value, size_t size) {
  std::string bytes(size, '\0');
  std::mt19937_64 random(value);
  for (size_t at = 0; at < size; at += 8) {
    const uint64_t next = at == 0 ? value : random();
    std::memcpy(bytes.data() + at, &next, std::min<size_t>(8, size - at));
  }
  return bytes;
}

Task<Result<std::string>> read_whole(std::shared_ptr<store::ObjectReader> reader) {
  std::string bytes;
  while (bytes.size() < reader->info().size) {
    const size_t n = std::min<uint64_t>(reader->info().size - bytes.size(), store::ObjectReader::chunk_size_max);
    VB_CO_ASSIGN(const memory::Chunk chunk, co_await reader->read(bytes.size(), n));
    bytes += as_text(chunk.bytes);
  }
  co_return bytes;
}

s3::Call root_call() {
  s3::Call call;
  call.identity.anonymous = false;
  return call;
}

int64_t wall_ns() { return Scheduler::get().wall_ns(); }

}  // namespace

struct World::Server {
  std::unique_ptr<memory::Arena> arena = std::move(*memory::Arena::create(64 * MiB));
  // The store's threads may still be waking a client's loop when the client has its answer.
  std::deque<boost::asio::io_context> loops;
  BlockingPool pool{2, 1024};
  std::unique_ptr<store::local::LocalStore> store;
  std::unique_ptr<s3::Service> service;
};

World::World(Plan plan) : plan_(plan) {
  for (int i = 0; i < 5; ++i) {
    const std::string name = fmt::format("k{}", i);
    keys_.push_back({plain, name, History(fmt::format("{}/{}", plain, name), false, 0)});
    keys_.push_back({versioned, name, History(fmt::format("{}/{}", versioned, name), true, day_s * 1'000'000'000)});
  }
}

World::~World() = default;

uint64_t World::draw(uint64_t below) { return Scheduler::get().random() % below; }

void World::fail_with(std::string why) {
  if (failure_.empty()) failure_ = std::move(why);
  stop_ = true;
}

bool World::run() {
  if (!open(true)) return false;
  while (clock_ < plan_.operations && failure_.empty()) {
    if (!round()) return false;
  }
  server_.reset();
  return failure_.empty();
}

bool World::open(bool make_buckets) {
  server_ = std::make_unique<Server>();
  std::string trouble;
  store::local::Options options;
  options.directory = "/store";
  options.arena = server_->arena.get();
  options.pool = &server_->pool;
  options.fs = &disk_;
  options.volume_size_max = 4 * MiB;
  options.allocate_step = 0;
  options.free_bytes_min = 0;
  options.scrub_rate = 64 * MiB;
  options.scrub_rest = std::chrono::seconds(1);
  options.trouble = &trouble;
  auto opened = store::local::LocalStore::open(options);
  if (!opened) {
    fail_with(fmt::format("the store does not open: {} {}", describe(opened.error()), trouble));
    return false;
  }
  server_->store = std::move(*opened);
  server_->service = std::make_unique<s3::Service>(
      s3::Service{.store = *server_->store, .arena = *server_->arena, .clock = system_clock()});
  if (!make_buckets) return true;
  boost::asio::io_context& loop = server_->loops.emplace_back();
  store::Store& store = *server_->store;
  for (const char* name : {plain, versioned}) {
    if (!simulator::run(loop, store.create_bucket({.name = name, .owner = "root"}))) fail_with("no bucket");
  }
  if (!simulator::run(loop, store.set_versioning(versioned, store::Versioning::enabled)) ||
      !simulator::run(loop, store.set_document(versioned, s3::lifecycle_document, std::string(rules)))) {
    fail_with("no rules");
  }
  return failure_.empty();
}

// One incarnation of the server: clients and background work until a number of operations, or until the machine stops.
bool World::round() {
  const End end = std::array{End::orderly, End::crash, End::crash, End::no_space}[draw(4)];
  if (end == End::crash) faulty_.fail_at(draw(1500), FaultyFileSystem::Fault::crash);
  if (end == End::no_space) faulty_.fail_at(draw(800), FaultyFileSystem::Fault::no_space);
  until_ = clock_ + 100 + draw(400);
  stop_ = false;
  stop_lifecycle_ = false;
  std::deque<std::thread> threads;
  for (int i = 0; i < plan_.clients; ++i) {
    threads.emplace_back([this, &loop = server_->loops.emplace_back()] { client(loop); });
  }
  std::thread background([this, &loop = server_->loops.emplace_back()] { lifecycle(loop); });
  for (std::thread& thread : threads) thread.join();
  stop_lifecycle_ = true;
  background.join();
  if (!failure_.empty()) return false;
  if (!faulty_.fault_happened() && !check_usage()) return false;
  server_.reset();
  if (end == End::crash) {
    ++crashes_;
    const auto loss = std::array{FaultyFileSystem::Loss::nothing, FaultyFileSystem::Loss::unsynced,
                                 FaultyFileSystem::Loss::torn}[draw(3)];
    faulty_.crash(loss, Scheduler::get().random());
  }
  faulty_.fail_at(UINT64_MAX, FaultyFileSystem::Fault::none);
  for (Key& key : keys_) {
    if (!key.history.crash()) fail_with(key.history.why());
  }
  return failure_.empty() && check_disk() && open(false) && read_all();
}

bool World::check_disk() {
  auto report = store::local::fsck({.directory = "/store", .fs = &disk_});
  if (!report) {
    fail_with("fsck: " + describe(report.error()));
  } else if (report->damaged()) {
    std::string text = fmt::format("fsck after crash {}: {} lost", crashes_, report->lost_count);
    for (const std::string& line : report->index) text += "\n  " + line;
    for (const auto& loss : report->lost) text += "\n  " + loss.name + ": " + loss.why;
    fail_with(std::move(text));
  }
  return failure_.empty();
}

// What the engine has counted is what a listing counts.
bool World::check_usage() {
  boost::asio::io_context& loop = server_->loops.emplace_back();
  for (const char* bucket : {plain, versioned}) {
    const auto counted = simulator::run(loop, server_->store->bucket_usage(bucket));
    const auto page = simulator::run(loop, server_->store->list_versions(bucket, {}));
    if (!counted || !page) continue;
    store::Usage listed;
    for (const store::VersionEntry& entry : page->versions) {
      if (entry.info.delete_marker) {
        ++listed.delete_markers;
      } else {
        ++(entry.latest ? listed.objects : listed.versions);
        (entry.latest ? listed.bytes : listed.version_bytes) += entry.info.size;
      }
    }
    if (counted->objects == listed.objects && counted->bytes == listed.bytes && counted->versions == listed.versions &&
        counted->version_bytes == listed.version_bytes && counted->delete_markers == listed.delete_markers) {
      continue;
    }
    fail_with(fmt::format(
        "usage of {}: {} objects of {} bytes, {} versions of {} bytes, {} markers; listed {} of {}, {} of "
        "{}, {}",
        bucket, counted->objects, counted->bytes, counted->versions, counted->version_bytes, counted->delete_markers,
        listed.objects, listed.bytes, listed.versions, listed.version_bytes, listed.delete_markers));
  }
  return failure_.empty();
}

bool World::read_all() {
  boost::asio::io_context& loop = server_->loops.emplace_back();
  for (Key& key : keys_) get(loop, key);
  list_versions(loop);
  return failure_.empty();
}

void World::client(boost::asio::io_context& loop) {
  while (!stop_ && clock_ < until_ && !faulty_.fault_happened()) {
    act(loop);
    Scheduler& scheduler = Scheduler::get();
    const uint64_t rest_us = draw(8) == 0 ? draw(700'000) : draw(500);
    scheduler.sleep_until(scheduler.steady_ns() + static_cast<int64_t>(rest_us) * 1000);
  }
}

void World::lifecycle(boost::asio::io_context& loop) {
  s3::LifecycleOptions options{
      .day_s = day_s, .page_size = static_cast<int>(2 + draw(12)), .pause = std::chrono::milliseconds(1)};
  while (!stop_lifecycle_) {
    s3::LifecyclePass pass(*server_->store, system_clock(), options, stop_lifecycle_);
    boost::asio::co_spawn(loop, pass.run(), boost::asio::detached);
    loop.restart();
    loop.run();
    std::this_thread::sleep_for(std::chrono::milliseconds(1 + draw(100)));
  }
}

void World::act(boost::asio::io_context& loop) {
  Key& key = keys_[draw(keys_.size())];
  if (!key.history.has_room()) return;
  const uint64_t choice = draw(100);
  if (choice < 35) return put(loop, key, choice < 6);
  if (choice < 45) return remove(loop, key);
  if (choice < 50) return remove_version(loop, key);
  if (choice < 85) return get(loop, key);
  if (choice < 92) return list(loop, key.bucket);
  list_versions(loop);
}

Operation& World::begin(Key& key, Operation operation) {
  ++clock_;
  operation.begin = ++order_;
  operation.begin_ns = wall_ns();
  return key.history.begin(std::move(operation));
}

void World::answer(Key& key, Operation& operation) {
  operation.end = ++order_;
  operation.end_ns = wall_ns();
  Scheduler::get().note(operation.end << 32 ^ static_cast<uint64_t>(operation.kind) << 24 ^ operation.value ^
                        (operation.seen.empty() ? 0 : operation.seen.back() << 8));
  if (!key.history.end()) fail_with(key.history.why());
}

void World::answer(Key& key, Operation& operation, Errc error) {
  // While no fault is armed a call may not fail, except for a lack of room that a full queue explains.
  if (!faulty_.fault_happened() && error != Errc::slow_down) {
    fail_with(fmt::format("{}/{}: operation {} of value {} failed without a fault: {}", key.bucket, key.name,
                          static_cast<int>(operation.kind), operation.value, to_string(error)));
  }
  Scheduler::get().note(static_cast<uint64_t>(error) << 8 | 255);
  if (!key.history.end()) fail_with(key.history.why());
}

void World::put(boost::asio::io_context& loop, Key& key, bool if_absent) {
  constexpr size_t sizes[] = {8, 300, 5000, 20'000, 70'000, 200'000};
  const uint32_t value = ++last_value_;
  const std::string bytes = bytes_of(value, sizes[draw(16) == 0 ? 3 + draw(3) : draw(3)]);
  Digest digest(Algorithm::md5);
  digest.update(as_bytes(bytes));
  values_[digest.finish_hex()] = value;
  s3::PutRequest request{};
  request.bucket = key.bucket;
  request.key = key.name;
  if (if_absent) request.conditions.if_none_match = "*";
  Operation& operation =
      begin(key, {.kind = if_absent ? Operation::Kind::put_if_absent : Operation::Kind::put, .value = value});
  memory::TextSource source(bytes);
  const s3::Call call = root_call();
  auto done = simulator::run(loop, s3::put_object(*server_->service, call, std::move(request), source));
  if (done) {
    ids_[value] = {&key, done->info.version_id};
    return answer(key, operation);
  }
  if (if_absent && done.error() == Errc::precondition_failed) {
    operation.refused = true;
    return answer(key, operation);
  }
  answer(key, operation, done.error().code);
}

void World::remove(boost::asio::io_context& loop, Key& key) {
  Operation& operation = begin(key, {.kind = Operation::Kind::remove});
  const s3::Call call = root_call();
  auto done = simulator::run(loop, s3::delete_object(*server_->service, call, key.bucket, key.name, {}));
  done ? answer(key, operation) : answer(key, operation, done.error().code);
}

void World::remove_version(boost::asio::io_context& loop, Key& key) {
  auto of = ids_.begin();
  if (of == ids_.end()) return;
  std::advance(of, static_cast<ptrdiff_t>(draw(ids_.size())));
  if (of->second.first != &key || key.bucket != versioned) return;
  Operation& operation = begin(key, {.kind = Operation::Kind::remove_version, .value = of->first});
  const s3::Call call = root_call();
  auto done = simulator::run(
      loop, s3::delete_object(*server_->service, call, key.bucket, key.name, {.version_id = of->second.second}));
  done ? answer(key, operation) : answer(key, operation, done.error().code);
}

bool World::is_whole(const store::ObjectInfo& info, const std::string& bytes) const {
  const auto known = values_.find(info.etag);
  return known != values_.end() && bytes == bytes_of(known->second, info.size);
}

void World::get(boost::asio::io_context& loop, Key& key) {
  Operation& operation = begin(key, {.kind = Operation::Kind::read});
  const s3::Call call = root_call();
  const s3::GetRequest request{
      .bucket = key.bucket, .key = key.name, .range = {}, .part_number = {}, .preconditions = {}};
  auto opened = simulator::run(loop, s3::open_object(*server_->service, call, request));
  if (!opened && opened.error() == Errc::no_such_key) return answer(key, operation);
  if (!opened) return answer(key, operation, opened.error().code);
  const auto bytes = simulator::run(loop, read_whole(opened->reader));
  if (!bytes) return answer(key, operation, bytes.error().code);
  if (!is_whole(opened->info(), *bytes)) fail_with(fmt::format("{}/{}: wrong bytes", key.bucket, key.name));
  operation.seen = {values_[opened->info().etag]};
  answer(key, operation);
}

// A page is one moment: for each key it is a read of that key.
void World::list(boost::asio::io_context& loop, const std::string& bucket) {
  std::vector<std::pair<Key*, Operation*>> reads;
  for (Key& key : keys_) {
    if (key.bucket == bucket && key.history.has_room()) {
      reads.emplace_back(&key, &begin(key, {.kind = Operation::Kind::read}));
    }
  }
  const s3::Call call = root_call();
  const auto page = simulator::run(loop, s3::list_objects(*server_->service, call, bucket, {}));
  for (auto [key, read] : reads) {
    if (!page) {
      answer(*key, *read, page.error().code);
      continue;
    }
    for (const store::ListEntry& entry : page->entries) {
      if (entry.key == key->name) read->seen = {values_[entry.info.etag]};
    }
    answer(*key, *read);
  }
}

void World::list_versions(boost::asio::io_context& loop) {
  std::vector<std::pair<Key*, Operation*>> reads;
  for (Key& key : keys_) {
    if (key.bucket == versioned && key.history.has_room()) {
      reads.emplace_back(&key, &begin(key, {.kind = Operation::Kind::read_versions}));
    }
  }
  const auto page = simulator::run(loop, server_->store->list_versions(versioned, {}));
  for (auto [key, read] : reads) {
    if (!page) {
      answer(*key, *read, page.error().code);
      continue;
    }
    for (const store::VersionEntry& entry : page->versions) {
      if (entry.key != key->name) continue;
      read->seen.insert(read->seen.begin(), entry.info.delete_marker ? 0 : values_[entry.info.etag]);
    }
    answer(*key, *read);
  }
}

}  // namespace verbena::simulator
