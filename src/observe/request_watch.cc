#include "observe/request_watch.h"

#include <algorithm>

#include "base/checksum.h"
#include "observe/record.h"

namespace verbena::observe {

std::string_view account_of(std::string_view principal) {
  // arn:aws:iam::123456789012:user/name
  for (int colons = 0; colons < 4; ++colons) {
    const size_t colon = principal.find(':');
    if (colon == std::string_view::npos) return {};
    principal.remove_prefix(colon + 1);
  }
  return principal.substr(0, principal.find(':'));
}

Line RequestWatch::next_line(std::string_view& rest) { return take_record(rest); }

template <class Gone>
void RequestWatch::remove_if(Gone gone) {
  std::erase_if(watchers_, [&](const auto& watcher) { return gone(*watcher); });
  count_.store(static_cast<uint32_t>(watchers_.size()), std::memory_order_relaxed);
}

void RequestWatch::forget_idle(SteadyClock::time_point now) {
  remove_if([&](const Watcher& watcher) { return now - watcher.taken > idle_max; });
}

Result<std::string> RequestWatch::begin(Filter filter, Wanted wanted) {
  std::array<std::byte, 16> random;
  fill_random(random);
  const auto now = SteadyClock::now();
  const std::lock_guard lock(mutex_);
  forget_idle(now);
  if (watchers_.size() >= watchers_max) return fail(Errc::limit_exceeded, "This server has too many watchers already.");
  auto watcher = std::make_unique<Watcher>();
  watcher->name = to_hex(random);
  watcher->filter = std::move(filter);
  watcher->wanted = wanted;
  watcher->missed_before = missed_.load(std::memory_order_relaxed);
  watcher->taken = now;
  watchers_.push_back(std::move(watcher));
  count_.store(static_cast<uint32_t>(watchers_.size()), std::memory_order_relaxed);
  return watchers_.back()->name;
}

void RequestWatch::end(std::string_view name) {
  const std::lock_guard lock(mutex_);
  remove_if([&](const Watcher& watcher) { return watcher.name == name; });
}

RequestWatch::Watcher* RequestWatch::find(std::string_view name, Wanted wanted) {
  const auto now = SteadyClock::now();
  forget_idle(now);
  for (const auto& watcher : watchers_) {
    if (watcher->name != name || watcher->wanted != wanted) continue;
    watcher->taken = now;
    return watcher.get();
  }
  return nullptr;
}

uint64_t RequestWatch::take_missed(Watcher& watcher) {
  const uint64_t all = missed_.load(std::memory_order_relaxed);
  const uint64_t since = all - watcher.missed_before;
  watcher.missed_before = all;
  return since;
}

Result<RequestWatch::Lines> RequestWatch::take_lines(std::string_view name) {
  const std::lock_guard lock(mutex_);
  Watcher* const watcher = find(name, Wanted::lines);
  if (watcher == nullptr) return fail(Errc::no_such_entity, "There is no such watcher (any more).");
  Lines taken = std::exchange(watcher->lines, Lines());
  taken.lost += take_missed(*watcher);
  return taken;
}

Result<RequestWatch::Sums> RequestWatch::take_sums(std::string_view name) {
  const std::lock_guard lock(mutex_);
  Watcher* const watcher = find(name, Wanted::sums);
  if (watcher == nullptr) return fail(Errc::no_such_entity, "There is no such watcher (any more).");
  Sums taken = std::exchange(watcher->sums, Sums());
  taken.lost += take_missed(*watcher);
  return taken;
}

bool RequestWatch::wants(const Filter& filter, const Line& line) {
  if (filter.errors && line.status < 400 && line.status != 0) return false;
  if (line.duration_us < filter.slower_than_us) return false;
  if (!filter.bucket.empty() && line.bucket != filter.bucket) return false;
  if (!filter.door.empty() && line.door != filter.door) return false;
  return filter.account.empty() || account_of(line.principal) == filter.account;
}

void RequestWatch::add_line(Watcher& watcher, const Line& line) {
  if (watcher.lines.count >= lines_max || watcher.lines.records.size() >= line_bytes_max) {
    ++watcher.lines.lost;
    return;
  }
  append_record(watcher.lines.records, line);
  ++watcher.lines.count;
}

void RequestWatch::add_sums(Watcher& watcher, const Line& line) {
  const auto add = [&](auto& sums, std::string_view name) {
    auto found = sums.find(name);
    if (found == sums.end()) {
      found = sums.try_emplace(std::string(sums.size() < names_max ? name : others_name)).first;
    }
    Sum& sum = found->second;
    ++sum.requests;
    sum.errors += line.status >= 400 || line.status == 0;
    sum.bytes_in += line.bytes_in;
    sum.bytes_out += line.bytes_out;
  };
  const std::string_view account = account_of(line.principal);
  add(watcher.sums.accounts, account.empty() ? "anonymous" : account);
  // Bucket names of failed requests are left out: clients can invent them.
  if (!line.bucket.empty() && line.status < 400 && line.status != 0) add(watcher.sums.buckets, line.bucket);
}

void RequestWatch::tell(const Line& line) {
  if (count_.load(std::memory_order_relaxed) == 0) return;
  constexpr int tries = 200;  // attempts at a lock that is held during a copy
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int i = 1; !lock && i < tries; ++i) (void)lock.try_lock();
  if (!lock) {
    missed_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  bool idle = false;
  const auto now = SteadyClock::now();
  for (const auto& watcher : watchers_) {
    idle = idle || now - watcher->taken > idle_max;
    if (!wants(watcher->filter, line)) continue;
    if (watcher->wanted == Wanted::lines) {
      add_line(*watcher, line);
    } else {
      add_sums(*watcher, line);
    }
  }
  if (idle) forget_idle(now);
}

size_t RequestWatch::watchers() const {
  const std::lock_guard lock(mutex_);
  return watchers_.size();
}

}  // namespace verbena::observe
