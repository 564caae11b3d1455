#include "simulator/world.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <boost/asio/detached.hpp>

#include "s3/access_generation.h"
#include "simulator/native.h"
#include "simulator/scene.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"

namespace verbena::simulator {
namespace {

constexpr int64_t second_ns = 1'000'000'000;
constexpr size_t keys_count = 3;
constexpr int pending_max = 2;  // writes of a bucket that may still happen
constexpr const char* directory_name = "folder--local1-az1--x-s3";

std::vector<std::string> key_names() {
  std::vector<std::string> names;
  for (size_t i = 0; i < keys_count; ++i) names.push_back(fmt::format("k{}", i));
  return names;
}

}  // namespace

void sleep_for(int64_t ns) {
  Scheduler& scheduler = Scheduler::get();
  scheduler.sleep_until(scheduler.steady_ns() + ns);
}

World::Bucket::Bucket(std::string name, BucketKind kind, bool locks, const Values& values, int64_t day_ns)
    : name(std::move(name)),
      kind(kind),
      locks(locks),
      book(day_ns),
      history(this->name, Model(kind, key_names(), values, book)),
      last(keys_count) {}

void World::Bucket::know(uint32_t key, uint32_t value, uint32_t content, const std::string& id) {
  constexpr size_t known_max = 24;
  if (versions.size() == known_max) versions.erase(versions.begin());
  versions.push_back({key, value, content, id});
  named.insert_or_assign(id, versions.back());
}

thread_local World::Server* World::server_ = nullptr;
thread_local World::Elsewhere World::elsewhere_;

int64_t World::draw_ns(uint64_t ms_max) { return static_cast<int64_t>(draw(ms_max * 1000)) * 1000; }

World::World(Plan plan, std::unique_ptr<Engine> engine)
    : plan_(plan), day_s_(1 + static_cast<int64_t>(draw(2))), engine_(std::move(engine)) {
  for (const char* name : {"plain", "other"}) {
    buckets_.emplace_back(name, BucketKind::plain, false, values_, day_s_ * second_ns);
  }
  buckets_.emplace_back("versioned", BucketKind::versioned, false, values_, day_s_ * second_ns);
  buckets_.emplace_back("locked", BucketKind::versioned, true, values_, day_s_ * second_ns);
  buckets_.emplace_back(directory_name, BucketKind::directory, false, values_, day_s_ * second_ns);
  for (Bucket& bucket : buckets_) {
    if (plan_.has(bucket.name.substr(0, bucket.name.find('-')))) used_.push_back(&bucket);
  }
  if (used_.empty()) used_.push_back(&buckets_.front());
  if (plan_.native) native_ = std::make_unique<Native>(*this);
  scenes_ = make_scenes(*this, plan_);
}

World::~World() = default;

uint64_t World::draw(uint64_t below) { return Scheduler::get().random() % below; }

void World::fail_with(std::string why) {
  if (failure_.empty()) failure_ = fmt::format("{}\nrounds: {}", why, fmt::join(fates_, ", "));
  stop_ = true;
}

bool World::run() {
  if (!open() || !make_buckets(server_->loops.emplace_back())) return false;
  while (clock_ < plan_.operations && failure_.empty()) {
    if (!round()) return false;
  }
  if (failure_.empty() && refused_ > clock_ / 20) {
    fail_with(fmt::format("{} of {} operations were refused with SlowDown without a fault", refused_, clock_));
  }
  const bool damaged = failure_.empty() && draw(2) == 0 && plan_.has("damage");
  if (damaged && !native_ && draw(2) == 0) decay();
  for (auto& server : servers_) close(server);
  if (decays_) forget_calls();
  if (failure_.empty() && damaged && engine_->damage()) last_act();
  for (auto& server : servers_) close(server);
  return failure_.empty();
}

void World::decay() {
  decays_ = engine_->decay();
  if (!decays_) return;
  fates_.push_back(engine_->fate());
  faulty_ = true;  // the number of operations stays
  until_ = clock_ + 40 + draw(160);
  stop_passes_ = draw(2) == 0;
  storm_ = {};
  work(plan_.clients);
  for (const auto& server : servers_) server->lifecycle.reset();
}

void World::last_act() {
  if (open()) {
    check_unhurt();
    read_all();
  } else if (!engine_->hurts_data_alone()) {
    failure_.clear();  // it may refuse
  }
}

void World::check_unhurt() {
  if (!engine_->hurts_data_alone()) return;
  Loop& loop = server_->loops.emplace_back();
  const s3::Call call = root_call();
  for (const Bucket& bucket : buckets_) {
    for (uint32_t key = 0; key < keys_count; ++key) {
      const std::string name = fmt::format("/{}/{}", bucket.name, bucket.history.model().key(key));
      const Reply reply = ask(loop, "GET", name);
      if (reply.ok() || reply.code == "NoSuchKey" || engine_->hurts(name.substr(1))) continue;
      fail_with(fmt::format("{} was not hit by the damage, and is not read: {}", name, reply.code));
    }
  }
}

void World::disturb() {
  constexpr int64_t most_ns = 4 * second_ns;
  Scheduler& scheduler = Scheduler::get();
  const auto by_ns = static_cast<int64_t>(draw(most_ns));
  switch (draw(3)) {
    case 0:
      return scheduler.stand_still(by_ns);
    case 1:
      return scheduler.jump_wall(by_ns);
    default:
      latest_ns();
      scheduler.jump_wall(-by_ns);
      for (Bucket& bucket : buckets_) bucket.history.clock_went_back(by_ns);
      for (int64_t* begun_ns : begins_) *begun_ns -= by_ns;
      if (native_) native_->clock_went_back(by_ns);
      for (const auto& scene : scenes_) scene->clock_went_back(by_ns);
  }
}

// What the engine keeps of a server has leases of its arena.
void World::close(std::unique_ptr<Server>& server) {
  if (!server) return;
  server->lifecycle.reset();
  for (const auto& scene : scenes_) scene->closes(*server);
  server->router.reset();
  server->service.reset();
  server->store.reset();
  const size_t number = server->number;
  engine_->left(number);
  server.reset();
  for (const auto& scene : scenes_) scene->gone(number);
}

// Those that are not there.
bool World::open() {
  servers_.resize(engine_->servers());
  for (size_t at = 0; at < servers_.size(); ++at) {
    if (!servers_[at] && !open_one(at)) return false;
    if (!servers_[at]->lifecycle) begin_lifecycle(*servers_[at]);
  }
  enter(*servers_[draw(servers_.size())]);
  Scheduler::get().set_group(0);
  return true;
}

void World::enter(Server& server) {
  server_ = &server;
  Scheduler::get().set_group(server.number + 1);
}

bool World::open_one(size_t at) {
  servers_[at] = std::make_unique<Server>(at);
  enter(*servers_[at]);
  std::string trouble;
  auto opened = engine_->open(at, *server_->arena, server_->pool, trouble);
  if (!opened) {
    fail_with(fmt::format("the store does not open: {} {}", describe(opened.error()), trouble));
    return false;
  }
  server_->store = std::move(*opened);
  server_->service = std::make_unique<s3::Service>(
      s3::Service{.store = *server_->store, .arena = *server_->arena, .clock = system_clock()});
  server_->service->lifecycle_day_s = day_s_;
  server_->service->encryption.keys = keys_.get();
  // Other servers change buckets' documents, too.
  if (engine_->shared()) server_->service->access->keep_where([](std::string_view) { return false; });
  for (const auto& scene : scenes_) scene->opened(*server_);
  server_->router = std::make_unique<s3::Router>(*server_->service, nullptr, s3::Router::Options{});
  return true;
}

void World::begin_lifecycle(Server& server) {
  enter(server);
  const s3::LifecycleOptions options{.day_s = day_s_,
                                     .page_size = static_cast<int>(2 + draw(12)),
                                     .pause = std::chrono::milliseconds(1),
                                     .on_duty = engine_->duty(server.number)};
  server.lifecycle = std::make_unique<s3::LifecycleWorker>(*server.service, options);
  server.lifecycle->start();
}

bool World::make_buckets(Loop& loop) {
  for (Bucket& bucket : buckets_) {
    s3::Headers headers;
    std::string body;
    if (bucket.locks) headers.emplace_back("x-amz-bucket-object-lock-enabled", "true");
    if (bucket.kind == BucketKind::directory) {
      body =
          "<CreateBucketConfiguration><Location><Name>local1-az1</Name><Type>AvailabilityZone</Type></Location>"
          "<Bucket><DataRedundancy>SingleAvailabilityZone</DataRedundancy><Type>Directory</Type></Bucket>"
          "</CreateBucketConfiguration>";
    }
    const Reply made = ask(loop, "PUT", "/" + bucket.name, headers, body);
    if (!made.ok()) fail_with("no bucket: " + made.body);
    if (bucket.versioned() && !bucket.locks) {
      const Reply set = ask(loop, "PUT", "/" + bucket.name + "?versioning", {},
                            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
      if (!set.ok()) fail_with("no versioning: " + set.body);
    }
  }
  if (native_) native_->begin(loop);
  for (const auto& scene : scenes_) scene->begin(loop);
  return failure_.empty();
}

// One incarnation of the server: clients and background work until a number of operations, or until the machine stops.
bool World::round() {
  for (Bucket& bucket : buckets_) set_rules(server_->loops.emplace_back(), bucket);
  for (const auto& scene : scenes_) scene->begin_round(server_->loops.emplace_back());
  if (plan_.has("faults")) engine_->begin_round();
  fates_.push_back(engine_->fate());
  until_ = clock_ + 100 + draw(400);
  stop_ = !failure_.empty();
  faulty_ = false;
  stop_passes_ = draw(2) == 0 || !plan_.has("passes");
  pass_rest_ms_ = draw(2) == 0 ? 100 : 1500;
  storm_ = {};
  if (native_) native_->begin_round(*server_);
  work(draw(8) == 0 ? 1 : plan_.clients);
  if (native_) native_->end_round(server_->loops.emplace_back());
  if (failure_.empty() && !engine_->befell()) check_lifecycle();
  for (const auto& scene : scenes_) {
    if (failure_.empty() && !engine_->befell()) scene->settle(server_->loops.emplace_back());
  }
  for (const auto& server : servers_) server->lifecycle.reset();
  if (!failure_.empty()) return false;
  if (!engine_->befell() && !check_usage()) return false;
  for (auto& server : servers_) {
    const size_t number = server->number;
    if (!engine_->leaves(number)) continue;
    close(server);
  }
  note_doubts();
  if (engine_->end_round()) ++crashes_;
  forget_calls();
  const std::string wrong = engine_->check();
  if (!wrong.empty()) fail_with(fmt::format("after crash {}: {}", crashes_, wrong));
  if (!failure_.empty() || !open() || !read_all()) return false;
  return !engine_->shared() || check_usage();
}

void World::work(int clients) {
  std::deque<std::thread> threads;
  alone_ = clients == 1;
  for (int i = 0; i < clients; ++i) {
    Server& server = *servers_[static_cast<size_t>(i) % servers_.size()];
    Server& other = *servers_[static_cast<size_t>(i + 1) % servers_.size()];
    const Elsewhere elsewhere{.server = &other, .loop = &other.loops.emplace_back()};
    threads.emplace_back([this, i, elsewhere, &server, &loop = server.loops.emplace_back()] {
      if (servers_.size() > 1) elsewhere_ = elsewhere;
      if (native_) native_->enter(i);
      client(server, loop);
    });
  }
  std::thread background([this, &server = *server_, &loop = server_->loops.emplace_back()] { passes(server, loop); });
  for (std::thread& thread : threads) thread.join();
  stop_passes_ = true;
  background.join();
  alone_ = true;
}

void World::forget_calls() {
  for (Bucket& bucket : buckets_) {
    if (!bucket.history.crash(latest_ns_)) fail_with(bucket.history.why());
    bucket.unsettled = 0;
  }
  for (Upload& upload : uploads_) upload.busy = false;
  if (native_) native_->crash();
  for (const auto& scene : scenes_) scene->crash();
}

void World::note_doubts() {
  doubts_.clear();
  if (!engine_->befell() || !engine_->shared()) return;
  for (const auto& server : servers_) {
    if (!server) continue;
    for (const Bucket& bucket : buckets_) {
      for (uint32_t key = 0; key < keys_count; ++key) doubts_.emplace(server->number, &bucket, key);
    }
  }
}

// What the engine has counted is what a listing counts; where servers share the store, once it knows what others have
// done.
bool World::check_usage() {
  constexpr int looks_max = 60;
  Loop& loop = server_->loops.emplace_back();
  for (const Bucket& bucket : buckets_) {
    std::string difference = usage_difference(loop, bucket);
    for (int looks = 1; !difference.empty() && engine_->shared() && looks < looks_max; ++looks) {
      sleep_for(second_ns);
      difference = usage_difference(loop, bucket);
    }
    if (!difference.empty()) fail_with(fmt::format("usage of {}: {}", bucket.name, difference));
  }
  return failure_.empty();
}

// In words; empty: none.
std::string World::usage_difference(Loop& loop, const Bucket& bucket) {
  store::Store& store = *server_->store;
  const auto counted = run_on(loop, store.bucket_usage(bucket.name));
  const auto page = run_on(loop, store.list_versions(bucket.name, {}));
  const auto uploads = run_on(loop, store.list_uploads(bucket.name, {}));
  if (!counted || !page || !uploads) return {};
  store::Usage listed;
  for (const store::VersionEntry& entry : page->versions) {
    if (entry.info.delete_marker) {
      ++listed.delete_markers;
    } else {
      ++(entry.latest ? listed.objects : listed.versions);
      (entry.latest ? listed.bytes : listed.version_bytes) += entry.info.size;
    }
  }
  for (const store::UploadInfo& upload : uploads->uploads) {
    ++listed.uploads;
    const auto parts = run_on(loop, store.list_parts(bucket.name, upload.key, upload.upload_id, 0, 1000));
    if (!parts) continue;
    for (const store::PartInfo& part : parts->parts) listed.upload_bytes += part.size;
  }
  if (*counted == listed) return {};
  const auto text = [](const store::Usage& of) {
    return fmt::format("{} objects of {} bytes, {} versions of {}, {} markers, {} uploads of {}", of.objects, of.bytes,
                       of.versions, of.version_bytes, of.delete_markers, of.uploads, of.upload_bytes);
  };
  return fmt::format("{}; listed {}", text(*counted), text(listed));
}

bool World::read_all() {
  boost::asio::io_context& loop = server_->loops.emplace_back();
  if (const std::string wrong = engine_->check_open(server_->number); !wrong.empty()) fail_with(wrong);
  for (Bucket& bucket : buckets_) {
    for (uint32_t key = 0; key < keys_count; ++key) get(loop, bucket, key);
    list(loop, bucket);
    if (bucket.versioned()) list_versions(loop, bucket);
    for (const Bucket::Known& known : bucket.versions) {
      if (draw(2) == 0) read_version_body(loop, bucket, known);
    }
  }
  for (Bucket& bucket : buckets_) list_uploads(loop, bucket);
  for (const Upload& upload : std::exchange(doubtful_, {})) ask_after(loop, upload);
  for (Upload& upload : uploads_) list_parts(loop, upload);
  std::erase_if(uploads_, [](const Upload& upload) { return upload.id.empty(); });
  for (const auto& scene : scenes_) scene->look(loop);
  return failure_.empty();
}

void World::client(Server& server, Loop& loop) {
  enter(server);
  while (!stop_ && clock_ < until_ && !engine_->stopped(server.number)) {
    act(loop);
    // What has met an error goes on for a while.
    if (engine_->ends_soon() && !std::exchange(faulty_, true)) until_ = std::min(until_, clock_ + draw(60));
    if (engine_->may_be_disturbed() && draw(400) == 0 && plan_.has("jumps")) disturb();
    if (draw(200) == 0) begin_storm();
    if (decays_ && draw(16) == 0) engine_->decay();
    rest();
  }
}

// Beside the server's worker, which has a pass a second: as if another server had the duty, too.
void World::passes(Server& server, Loop& loop) {
  enter(server);
  const s3::LifecycleOptions options{
      .day_s = day_s_, .page_size = static_cast<int>(2 + draw(12)), .pause = std::chrono::milliseconds(1)};
  while (!stop_passes_) {
    if (draw(3) == 0) begin_storm();
    s3::LifecyclePass pass(*server_->store, system_clock(), options, stop_passes_);
    boost::asio::co_spawn(loop, pass.run(), boost::asio::detached);
    loop.restart();
    loop.run();
    const bool settles = std::ranges::any_of(buckets_, [](const Bucket& bucket) { return bucket.unsettled != 0; });
    sleep_for(draw_ns(settles ? 10'000 : pass_rest_ms_));
  }
}

void World::act(Loop& loop) {
  if (!scenes_.empty() && draw(5) == 0) return scenes_[draw(scenes_.size())]->act(loop);
  Bucket& bucket = in_storm() ? *storm_.bucket : *used_[draw(used_.size())];
  if ((bucket.unsettled >= pending_max || (bucket.unsettled != 0 && !bucket.history.has_room())) &&
      engine_->errors_pend()) {
    ++clock_;  // the round is to end
    return;
  }
  if (!may_act(bucket)) return sleep_for(in_storm() ? static_cast<int64_t>(draw(200)) * 1000 : draw_ns(500));
  if (in_storm()) return act_in_storm(loop, bucket);
  act_on(loop, bucket, static_cast<uint32_t>(draw(keys_count)));
}

// While calls there may still happen, others are few: each may have come before or after.
bool World::may_act(const Bucket& bucket) {
  return bucket.history.has_room() && (bucket.unsettled == 0 || draw(8) == 0);
}

void World::act_on(Loop& loop, Bucket& bucket, uint32_t key) {
  if (native_ && native_->act(loop, bucket, key)) return;
  const uint64_t choice = draw(100);
  if (choice < 25) return put(loop, bucket, key);
  if (choice < 33) return remove(loop, bucket, key);
  if (choice < 55) return get(loop, bucket, key);
  if (choice < 63) return list(loop, bucket);
  if (bucket.kind == BucketKind::directory) return choice < 85 ? append(loop, bucket, key) : rename(loop, bucket, key);
  if (choice < 66) return copy(loop, bucket, key);
  if (choice < 76) return act_on_upload(loop, bucket, key);
  if (choice < 79) return set_tag(loop, bucket, key);
  if (choice < 80) return read_tag(loop, bucket, key);
  if (choice < 82) return set_rules(loop, bucket);
  if (!bucket.versioned()) return put(loop, bucket, key);
  if (choice < 88) return remove_version(loop, bucket);
  if (choice < 91) return read_version(loop, bucket);
  if (choice < 96 || !bucket.locks) return list_versions(loop, bucket);
  return choice < 98 ? set_hold(loop, bucket) : set_lock(loop, bucket);
}

// Stored times are in microseconds.
int64_t World::earliest_ns() const { return (Scheduler::get().wall_ns() - engine_->clocks_apart_ns()) / 1000 * 1000; }

int64_t World::latest_ns() {
  latest_ns_ = std::max(latest_ns_, Scheduler::get().wall_ns() + engine_->clocks_apart_ns());
  return latest_ns_;
}

Operation& World::begin(Bucket& bucket, Operation operation) {
  ++clock_;
  operation.begin = ++order_;
  operation.begin_ns = earliest_ns();
  operation.called_ns = Scheduler::get().steady_ns();
  Operation& under_way = bucket.history.begin(std::move(operation));
  if (native_) native_->began(under_way);
  return under_way;
}

void World::close(Bucket& bucket, Operation& operation, uint64_t noted) {
  operation.end_ns = latest_ns();
  if (native_) native_->ended(operation);
  Scheduler::get().note(static_cast<uint64_t>(operation.kind) << 56 ^ uint64_t{operation.value} << 24 ^ noted);
  if (!bucket.history.end()) fail_with(bucket.history.why());
}

void World::answer(Bucket& bucket, Operation& operation, Operation::Outcome outcome) {
  operation.end = std::min(operation.end, ++order_);  // a watch may have told of it before
  operation.outcome = outcome;
  if (native_) native_->answered(bucket, operation);
  uint64_t noted = static_cast<uint64_t>(outcome);
  for (const auto& seen : operation.seen) {
    for (const uint32_t value : seen) noted = noted * 31 + value;
  }
  close(bucket, operation, noted);
}

void World::note_failure(std::string_view what, std::string_view code) {
  if (engine_->befell()) return;
  // A queue may be full where many work.
  if ((code == "slow_down" || code == "SlowDown") && (!alone_ || engine_->shared())) {
    ++refused_;
    return;
  }
  fail_with(fmt::format("{} failed without a fault: {}", what, code));
}

void World::note_failure(std::string_view what, const Reply& reply, const Bucket& bucket, uint32_t key) {
  if (!is_doubt(bucket, key, reply.code == "ServiceUnavailable")) note_failure(what, reply.code);
}

bool World::is_doubt(const Bucket& bucket, uint32_t key, bool unavailable) {
  return unavailable && doubts_.erase({server_->number, &bucket, key}) != 0;
}

void World::answer_error(Bucket& bucket, Operation& operation, const Error& error) {
  if (!is_doubt(bucket, operation.key, error == Errc::service_unavailable)) {
    note_failure(
        fmt::format("{}: operation {} of value {}", bucket.name, static_cast<int>(operation.kind), operation.value),
        error == Errc::slow_down ? "slow_down" : describe(error));
  }
  unsettled(bucket, operation, is_barred(operation, error == Errc::service_unavailable, describe(error)));
}

void World::answer_error(Bucket& bucket, Operation& operation, const Reply& reply) {
  if (!is_doubt(bucket, operation.key, reply.code == "ServiceUnavailable")) {
    note_failure(
        fmt::format("{}: operation {} of value {}", bucket.name, static_cast<int>(operation.kind), operation.value),
        reply.code == "SlowDown" ? reply.code : reply.body);
  }
  unsettled(bucket, operation, is_barred(operation, reply.code == "ServiceUnavailable", reply.body));
}

// Over Ceph: whether the server has seen to it that the change does not happen after its answer. It tries that for a
// minute, and then answers all the same. A rename between two tablets is ended by others.
bool World::is_barred(const Operation& operation, bool unavailable, std::string_view text) const {
  constexpr int64_t tried_ns = 60 * second_ns;
  return engine_->shared() && unavailable && operation.kind != Operation::Kind::rename &&
         text.find("did not say whether the change was made") != std::string_view::npos &&
         Scheduler::get().steady_ns() - operation.called_ns < tried_ns;
}

// It may still happen, for a while.
void World::unsettled(Bucket& bucket, Operation& operation, bool is_barred) {
  if (is_barred) {
    operation.unsure = true;
    operation.end = std::min(operation.end, ++order_);
    const bool changes = operation.kind != Operation::Kind::read;
    const uint32_t key = operation.key;
    close(bucket, operation, 254);
    if (changes) turn_elsewhere(bucket, key);
    return;
  }
  if (engine_->errors_pend()) {
    ++bucket.unsettled;
    return;
  }
  ++bucket.unsettled;
  sleep_for(engine_->settles_ns());
  --bucket.unsettled;
  close(bucket, operation, 255);
}

// A client whose change is of unknown outcome looks whether it happened, or tries it again, through another server.
void World::turn_elsewhere(Bucket& bucket, uint32_t key) {
  const Elsewhere to = std::exchange(elsewhere_, {});
  if (to.server != nullptr && failure_.empty() && bucket.history.has_room() && !engine_->stopped(to.server->number)) {
    Server& own = *server_;
    enter(*to.server);
    const uint64_t choice = draw(8);
    if (choice == 0) put(*to.loop, bucket, key);
    if (choice == 1) remove(*to.loop, bucket, key);
    get(*to.loop, bucket, key);
    enter(own);
  }
  elsewhere_ = to;
}

World::Reply World::ask(Loop& loop, std::string_view method, const std::string& target, s3::Headers headers,
                        const std::string& body) {
  s3::Call call = root_call();
  const size_t mark = std::min(target.find('?'), target.size());
  headers.emplace_back("content-length", std::to_string(body.size()));
  s3::Request request{.call = call,
                      .method = method,
                      .host = "localhost",
                      .raw_path = std::string_view(target).substr(0, mark),
                      .raw_query = std::string_view(target).substr(std::min(mark + 1, target.size())),
                      .headers = headers,
                      .content_length = body.size()};
  memory::TextSource source(body);
  TextSink sink;
  s3::Response response;
  const bool whole = run_on(loop, server_->router->handle(request, source, nullptr, response, sink));
  Reply reply{.status = whole ? response.status : 0,
              .code = response.error_code,
              .body = sink.begun ? sink.text : response.body,
              .version_id = {},
              .etag = {}};
  for (const auto& [name, value] : response.headers) {
    if (std::string_view(name) == "x-amz-version-id") reply.version_id = value;
    if (std::string_view(name) == "etag") reply.etag = value;
    if (std::string_view(name) == "x-verbena-expires") reply.expires = value;
  }
  return reply;
}

std::string World::Reply::element(const std::string& name) const {
  const size_t at = body.find("<" + name + ">");
  if (at == std::string::npos) return {};
  const size_t from = at + name.size() + 2;
  return body.substr(from, body.find("</" + name + ">", from) - from);
}

s3::Call root_call() {
  s3::Call call;
  call.identity.anonymous = false;
  call.identity.access_key = "root";
  call.peer_address = "127.0.0.1";
  call.request_id = "0123456789ABCDEF";
  return call;
}

}  // namespace verbena::simulator
