#include "simulator/native.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "client/native/handshake.h"
#include "client/native/session_request.h"
#include "simulator/scheduler.h"
#include "simulator/server.h"
#include "store/logic/engine_store.h"

namespace verbena::simulator {
namespace {

constexpr int64_t millisecond_ns = 1'000'000;
constexpr size_t watchers_count = 2;

}  // namespace

Guarded::Guarded(size_t size) : all_(pattern().begin(), pattern().begin() + size + 2 * guard), size_(size) {}

const std::vector<std::byte>& Guarded::pattern() {
  static const std::vector<std::byte> bytes = [] {
    std::vector<std::byte> made(2 * MiB);
    for (size_t at = 0; at < made.size(); ++at) made[at] = std::byte(0x5a ^ at * 7);
    return made;
  }();
  return bytes;
}

bool Guarded::untouched_but(std::span<const std::pair<size_t, size_t>> written) const {
  size_t from = 0;
  const auto is_whole = [&](size_t to) {
    return std::memcmp(all_.data() + from, pattern().data() + from, to - from) == 0;
  };
  for (const auto& [begin, end] : written) {
    if (!is_whole(guard + begin)) return false;
    from = guard + end;
  }
  return is_whole(all_.size());
}

bool Guarded::untouched_behind(size_t length) const {
  const std::pair<size_t, size_t> written{0, length};
  return untouched_but(std::span(&written, 1));
}

thread_local World::Native::Slot* World::Native::slot_ = nullptr;

World::Native::Native(World& world)
    : world_(world), blocks_used_(world.plan_.has_scene("blocks")), fabric_(static_cast<Fabric::Kind>(world.draw(3))) {
  client::ask_for_sessions_by([this](const client::NativeOptions& options, const net::HttpRequest& request) {
    return ask(request, std::stoul(options.host));
  });
  const size_t sessions = 1 + draw(3);
  for (size_t host = 0; host < sessions; ++host) slots_.push_back({.host = host});
  for (size_t i = 0; i < watchers_count; ++i) {
    Bucket& bucket = *world.used_[draw(world.used_.size())];
    watchers_.push_back({.bucket = &bucket, .slot = {.host = sessions + i, .watches = true}});
  }
}

World::Native::~Native() = default;

// --- Rounds ----------------------------------------------------------------------------------------------------------

std::shared_ptr<NativeServer> World::Native::make_server() {
  auto* const feeds = dynamic_cast<store::ChangeFeeds*>(below_->store.get());
  return std::make_shared<NativeServer>(*below_->service, feeds, fabric_, 1 + static_cast<unsigned>(draw(2)));
}

void World::Native::begin_round(Server& server) {
  below_ = &server;
  over_ = false;
  server_ = make_server();
  fabric_.trouble_all();  // sessions of the last round
  fabric_.be_faulty(draw(2) == 0 && world_.plan_.has("faults"));
  restarts_ = draw(3) == 0 && world_.plan_.has("faults");
  helpers_.emplace_back([this] { restarts(); });
  for (Watcher& watcher : watchers_) {
    helpers_.emplace_back([this, &watcher] {
      world_.enter(*below_);
      watch(watcher);
    });
  }
}

void World::Native::end_round(Loop& loop) {
  over_ = true;
  for (std::thread& helper : helpers_) helper.join();
  helpers_.clear();
  fabric_.be_faulty(false);
  for (Watcher& watcher : watchers_) judge(watcher, loop);
  for (Slot& slot : slots_) slot.session.reset();
  server_.reset();
  check_late();
  late_.clear();
  if (const std::string wrong = fabric_.wrong(); !wrong.empty()) world_.fail_with(wrong);
}

std::shared_ptr<NativeServer> World::Native::server() {
  const std::lock_guard lock(mutex_);
  return server_;
}

// The door stops and another one opens; sometimes a host vanishes, which comes back with a new session.
void World::Native::restarts() {
  world_.enter(*below_);
  while (!over_) {
    sleep_for(world_.draw_ns(600));
    if (over_ || !restarts_) continue;
    if (draw(2) == 0) {
      fabric_.cut(draw(slots_.size() + watchers_.size()));
      continue;
    }
    fabric_.trouble_all();
    auto old = server();
    {
      const std::lock_guard lock(mutex_);
      server_ = nullptr;
    }
    if (draw(2) == 0) fabric_.cut_all();
    while (old.use_count() > 1) sleep_for(millisecond_ns);
    old.reset();
    sleep_for(world_.draw_ns(20));
    auto made = make_server();
    const std::lock_guard lock(mutex_);
    server_ = std::move(made);
    fabric_.trouble_all();
  }
}

void World::Native::enter(int number) {
  slot_ = number % 2 == 0 ? nullptr : &slots_[static_cast<size_t>(number / 2) % slots_.size()];
}

// --- Sessions --------------------------------------------------------------------------------------------------------

client::NativeOptions World::Native::options(Slot& slot) {
  client::NativeOptions options;
  options.credentials = NativeServer::key();
  options.providers = {std::string(fabric_.provider())};
  options.connect_timeout = std::chrono::seconds(20);
  options.request_timeout = std::chrono::seconds(30);
  options.spin_for = std::chrono::microseconds(1);
  options.host = std::to_string(slot.host);
  options.dial = [this, &slot](const client::NativeEndpoint& endpoint, const client::SessionTerms& terms) {
    ++slot.dials;
    return fabric_.connect(endpoint.address, terms.session, slot.host);
  };
  return options;
}

Result<net::HttpReply> World::Native::ask(const net::HttpRequest& request, size_t host) {
  const auto server = this->server();
  if (server == nullptr) {
    fabric_.trouble(host);  // calls of older sessions may have gone well since the door stopped
    return fail(Errc::connection_failed, "simulated: no server");
  }
  return server->ask(request, host);
}

// Null: none could be opened, which something excuses.
std::shared_ptr<client::NativeSession> World::Native::session(Slot& slot) {
  if (slot.session != nullptr && draw(150) == 0) slot.session.reset();  // with BYE, after what others still do with it
  if (auto known = slot.session) return known;
  const Attempt opening = attempt(slot, nullptr);
  auto opened = client::NativeSession::open(options(slot));
  if (!opened) {
    note_error(opening, "a session", opened.error());
    sleep_for(world_.draw_ns(2));
    return nullptr;
  }
  slot.session = std::move(*opened);
  return slot.session;
}

World::Native::Attempt World::Native::attempt(Slot& slot, std::shared_ptr<client::NativeSession> session) const {
  return {slot,       std::move(session), fabric_.troubles(slot.host),
          slot.dials, slot.good,          fabric_.holds_broken(slot.host)};
}

void World::Native::succeeded(const Attempt& attempt) {
  attempt.slot.good = std::max(attempt.slot.good, attempt.troubles);
}

// --- Errors ----------------------------------------------------------------------------------------------------------

// Something has befallen this host's connections since the last call that went well before this one; or a session's
// stream, of several, was broken when the call began, which a call on another stream does not notice.
bool World::Native::is_excused(const Attempt& attempt, const Error& error) const {
  if (error == Errc::slow_down) return true;
  if (error == Errc::request_timeout && attempt.slot.watches) return true;  // an older one has come late, for this one
  const uint64_t now = fabric_.troubles(attempt.slot.host);
  const bool of_transport = error == Errc::closed || error == Errc::connection_failed || error == Errc::timed_out ||
                            error == Errc::rdma_transfer_failed || error == Errc::request_timeout ||
                            error == Errc::service_unavailable || error == Errc::incomplete_body;
  return of_transport && (attempt.broken || now != attempt.troubles || now != attempt.good);
}

void World::Native::note_error(const Attempt& attempt, std::string_view what, const Error& error) {
  if (!is_excused(attempt, error)) world_.note_failure(fmt::format("native: {}", what), describe(error));
}

// The server may still do what it was asked on a connection that broke.
void World::Native::settle() {
  constexpr int slices = 60;
  for (int i = 0; i < slices && !world_.engine_->stopped(below_->number); ++i) {
    sleep_for(25 * millisecond_ns);
    const auto now = server();
    if (now != nullptr && now->idle()) return;
  }
}

void World::Native::close_failed(Bucket& bucket, std::span<Operation* const> operations) {
  if (operations.empty()) return;
  const auto count = static_cast<int>(operations.size());
  bucket.unsettled += count;
  settle();
  if (world_.engine_->errors_pend()) return;
  bucket.unsettled -= count;
  for (Operation* const operation : operations) world_.close(bucket, *operation, 251);
}

void World::Native::fail_write(const Attempt& attempt, Bucket& bucket, Operation& operation, const Error& error) {
  note_error(attempt, fmt::format("{}: a write of {}", bucket.name, operation.value), error);
  Operation* const one = &operation;
  close_failed(bucket, std::span(&one, 1));
}

void World::Native::fail_read(const Attempt& attempt, Bucket& bucket, Operation& operation, const Error& error) {
  note_error(attempt, fmt::format("{}: a read", bucket.name), error);
  world_.close(bucket, operation, 250);
}

// A put without conditions is sent again when its session broke: the first one may have happened, too.
Operation* World::Native::ghost_of(const Attempt& attempt, Bucket& bucket, const Operation& operation) {
  if (attempt.slot.dials == attempt.dials) return nullptr;
  const uint64_t begin = operation.begin;
  const int64_t begin_ns = operation.begin_ns;
  Operation& ghost = world_.begin(bucket, operation);
  ghost.begin = begin;
  ghost.begin_ns = begin_ns;
  ghost.end = UINT64_MAX;
  return &ghost;
}

void World::Native::keep_late(std::shared_ptr<Guarded> memory) {
  constexpr size_t kept_max = 8;
  std::vector<std::byte> was(memory->bytes().begin(), memory->bytes().end());
  late_.push_back({std::move(memory), std::move(was)});
  if (late_.size() <= kept_max) return;
  check_late();
  late_.pop_front();
}

void World::Native::check_late() {
  for (const Late& late : late_) {
    if (std::memcmp(late.memory->bytes().data(), late.was.data(), late.was.size()) != 0) {
      world_.fail_with("native: bytes landed after their call");
    }
  }
}

// --- What clients do -------------------------------------------------------------------------------------------------

bool World::Native::act(Loop& loop, Bucket& bucket, uint32_t key) {
  if (slot_ == nullptr || draw(12) == 0) return false;
  const auto session = this->session(*slot_);
  if (session == nullptr) return true;
  const Attempt by = attempt(*slot_, session);
  if (blocks_used_ && draw(6) == 0) {
    act_on_blocks(by, loop);
    return true;
  }
  const uint64_t choice = draw(100);
  const bool directory = bucket.kind == BucketKind::directory;
  if (choice < 22) {
    put(by, bucket, key);
  } else if (choice < 42) {
    get(by, bucket, key);
  } else if (choice < 52) {
    head(by, bucket, key);
  } else if (choice < 60) {
    remove(by, bucket, key);
  } else if (choice < 68) {
    list(by, bucket);
  } else if (choice < 78) {
    get_many(by, bucket);
  } else if (choice < 83) {
    directory ? put_many(by, bucket) : head_many(by, bucket);
  } else if (choice < 88) {
    remove_many(by, bucket);
  } else if (choice < 96) {
    directory ? append(by, loop, bucket, key) : get(by, bucket, key);
  } else {
    directory ? rename(by, bucket, key) : put(by, bucket, key);
  }
  return true;
}

}  // namespace verbena::simulator
