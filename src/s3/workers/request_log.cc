#include "s3/workers/request_log.h"

#include <fmt/core.h>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/bytes.h"
#include "base/client_counts.h"
#include "base/fair_share.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/owners_queue.h"
#include "call/account.h"
#include "memory/text_source.h"
#include "s3/access/access.h"
#include "s3/access/authorize.h"
#include "s3/access/bound.h"
#include "s3/access/quota.h"
#include "s3/documents/bucket_document.h"
#include "s3/events/announce.h"
#include "s3/objects/encryption.h"
#include "s3/objects/ingest.h"

namespace verbena::s3 {
namespace {

namespace asio = boost::asio;

metrics::Counter& delivered() {
  static auto& counter = metrics::counter("verbena_bucket_log_objects_total", "Server access log objects delivered");
  return counter;
}
// Reasons for dropping: a record beyond its origin's share of the queue (`share`), a batch beyond the quota of the
// target's owner (`quota`), one that cannot be delivered (`target`), or one that is left when a stop of the server has
// taken its time (`stop`).
metrics::Counter& dropped(const char* why) {
  return metrics::counter("verbena_bucket_log_dropped_total", "Server access log records and batches that were dropped",
                          {{"cause", why}});
}
metrics::Counter& dropped_for_share() {
  static auto& counter = dropped("share");
  return counter;
}

metrics::Counter& dropped_at_stop() {
  static auto& counter = dropped("stop");
  return counter;
}

constexpr size_t record_bytes_least = 64;  // the shortest record
constexpr std::chrono::seconds tell_every{60};
constexpr std::chrono::seconds log_room_wait_max{2};

// The records of one object: never of several owners, or for several readers. Partitioned keys have the records'
// bucket, and perhaps their day.
std::string batch_name(const LoggingRule& rule, const LogRecord& record) {
  std::string name = encode_acl({record.bucket_owner, rule.grants}) + "/" + rule.target_bucket + "/" + rule.prefix;
  if (rule.format == LoggingRule::KeyFormat::simple) return name;
  name += std::string(1, '\0') + record.bucket;
  if (rule.format == LoggingRule::KeyFormat::by_event_time) name += "/" + std::to_string(record.time_s / 86'400);
  return name;
}

std::string unique_text() {
  std::byte bytes[8];
  fill_random(bytes);
  return to_hex(bytes);
}

}  // namespace

Task<std::shared_ptr<LogEntry>> RequestLog::begin(const std::string& bucket) {
  const auto document = co_await service_.store.document(bucket, logging_document);
  if (!document) co_return nullptr;
  auto rule = parse_logging(nullptr, **document);
  if (!rule || !*rule) co_return nullptr;
  const auto access = co_await bucket_access(service_, bucket);
  if (!access) co_return nullptr;
  auto entry = std::make_shared<LogEntry>(*this, std::move(**rule));
  entry->record.bucket = bucket;
  entry->record.bucket_owner = (*access)->owner;
  entry->account = (*access)->owner_id;
  co_return entry;
}

bool RequestLog::fits(const LogRecord& record, const std::string& client, size_t bytes) const {
  const auto of = queued_of_.find(record.bucket_owner);
  if (of == queued_of_.end()) return fits_fair_share(queued_bytes_, 0, bytes, options_.queued_bytes_max);
  const Queued& own = of->second;
  if (!fits_fair_share(queued_bytes_, own.bytes, bytes, options_.queued_bytes_max)) return false;
  const auto made = own.of_address.find(client);
  const size_t of_client = made == own.of_address.end() ? 0 : made->second;
  return fits_fair_share(own.bytes, of_client, bytes, fair_share(queued_bytes_ - own.bytes, options_.queued_bytes_max));
}

void RequestLog::add(const LogEntry& entry) { queue(entry, entry.record); }

void RequestLog::add_deletion(const LogEntry& entry, const call::Deletion& deletion) {
  const LogRecord& of = entry.record;
  LogRecord record;
  record.bucket_owner = of.bucket_owner;
  record.bucket = of.bucket;
  record.time_s = of.time_s;
  record.peer = of.peer;
  record.requester = of.requester;
  record.request_id = of.request_id;
  record.operation = "BATCH.DELETE.OBJECT";
  record.key = deletion.key;
  record.status = deletion.status;
  record.error_code = deletion.error_code;
  record.version_id = deletion.version_id;
  record.signature = of.signature;
  record.auth_type = of.auth_type;
  record.acl_required = of.acl_required;
  queue(entry, record);
}

void RequestLog::queue(const LogEntry& entry, const LogRecord& record) {
  const std::string client = client_of(record.peer);
  {
    // Without room nothing is written.
    std::lock_guard lock(mutex_);
    if (!fits(record, client, record_bytes_least)) return dropped_for_share().add();
  }
  const std::string line = format_log_record(record);
  std::lock_guard lock(mutex_);
  if (!fits(record, client, line.size())) return dropped_for_share().add();
  queued_bytes_ += line.size();
  Queued& own = queued_of_[record.bucket_owner];
  own.bytes += line.size();
  own.of_address[client] += line.size();
  const auto [it, made] = batches_.try_emplace(batch_name(entry.rule, record));
  Batch& batch = it->second;
  if (made) {
    batch.rule = entry.rule;
    batch.owner = record.bucket_owner;
    batch.source = {entry.account, service_.region, record.bucket, record.time_s};
    batch.due = std::chrono::steady_clock::now() + options_.interval;
  }
  batch.lines += line;
  batch.bytes_of[client] += line.size();
  if (batch.lines.size() >= options_.batch_bytes_max || pressed()) wake();
}

void RequestLog::wake() {
  if (std::exchange(woken_, true)) return;
  asio::post(io_, [this] { timer_.cancel(); });
}

bool RequestLog::is_woken() {
  std::lock_guard lock(mutex_);
  return woken_;
}

std::vector<RequestLog::Batch> RequestLog::take(bool all) {
  std::vector<Batch> due;
  const auto now = std::chrono::steady_clock::now();
  std::lock_guard lock(mutex_);
  woken_ = false;
  // Under pressure, all batches of the owner with the most queued bytes are delivered at once.
  std::string most;
  const auto bytes_of = [](const auto& owner) { return owner.second.bytes; };
  if (pressed()) most = std::ranges::max_element(queued_of_, {}, bytes_of)->first;
  for (auto it = batches_.begin(); it != batches_.end();) {
    Batch& batch = it->second;
    const bool early = batch.lines.size() >= options_.batch_bytes_max || (!most.empty() && batch.owner == most);
    if (!all && batch.due > now && !early) {
      ++it;
      continue;
    }
    queued_bytes_ -= batch.lines.size();
    const auto of = queued_of_.find(batch.owner);
    for (const auto& [client, bytes] : batch.bytes_of) {
      const auto made = of->second.of_address.find(client);
      if ((made->second -= bytes) == 0) of->second.of_address.erase(made);
    }
    if ((of->second.bytes -= batch.lines.size()) == 0) queued_of_.erase(of);
    due.push_back(std::move(batch));
    it = batches_.erase(it);
  }
  return due;
}

Task<Result<void>> RequestLog::write(const Batch& batch) {
  const LoggingRule& rule = batch.rule;
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service_, rule.target_bucket));
  // The target bucket may have been removed and created again by another account since the record was queued.
  if (access->owner != batch.owner) co_return fail(Errc::access_denied, "log delivery");
  VB_CO_ASSIGN(const Acl acl, log_object_acl(*access, rule));
  const std::string key = log_object_key(rule, batch.source, service_.clock.now_us() / 1'000'000, unique_text());
  EncryptionWish wish;
  VB_CO_ASSIGN(const Seal seal, co_await plan_seal(service_, rule.target_bucket, key, std::move(wish)));
  const auto stored_size = seal.stored_size(batch.lines.size());
  // Log objects count in the quota of the target's owner and are dropped beyond it.
  const auto room = Reservation::make(service_, *access, batch.lines.size(), 1);
  if (!room) co_return std::unexpected(room.error());
  // Likewise beyond the bound of the target. The records of other buckets do not wait long for it.
  BoundWish room_wish{.key = key, .bytes = batch.lines.size()};
  // At a stop of the server they do not wait at all: its bounds worker evicts no more by then.
  const auto wait_max = stop_ ? std::chrono::seconds(0) : log_room_wait_max;
  VB_CO_ASSIGN(const BoundClaim claim, co_await claim_room(access->bound, std::move(room_wish), wait_max));
  VB_CO_ASSIGN(auto writer, co_await service_.store.create(rule.target_bucket, key, stored_size));
  writer = seal.writer(service_, std::move(writer), batch.lines.size());
  memory::TextSource source(batch.lines);
  const Call caller;
  PutRequest request;
  request.md5_etag = has_md5_etag(*access, seal);
  Reservation none;  // only used for bodies of unknown length
  VB_CO_ASSIGN(store::ObjectInfo info, co_await ingest(service_, caller, *writer, request, source, none, nullptr));
  seal.mark_object(service_, rule.target_bucket, key, info);
  info.headers.emplace_back("content-type", "text/plain");
  store::change_attributes(info.attributes, acl_attributes(*access, acl));
  store::CommitConditions conditions;
  conditions.announcement = announce(service_, *access, caller, EventCause::put, key);
  VB_CO_TRY(co_await writer->commit(std::move(info), std::move(conditions)));
  co_return Result<void>();
}

Task<> RequestLog::deliver(bool all) {
  std::vector<Batch> due = all ? std::exchange(left_, {}) : std::vector<Batch>();
  std::ranges::move(take(all), std::back_inserter(due));
  due = in_turns(std::move(due), [](const Batch& batch) { return batch.owner; });
  for (size_t i = 0; i < due.size(); ++i) {
    const std::span rest = std::span(due).subspan(i);
    // These take turns with what other owners have queued since.
    if (stop_ && !all) {
      std::ranges::move(rest, std::back_inserter(left_));
      co_return;
    }
    if (is_late()) co_return drop_at_stop(rest);
    co_await deliver_one(due[i]);
  }
}

Task<> RequestLog::deliver_one(const Batch& batch) {
  const auto written = co_await write(batch);
  if (written) {
    delivered().add();
  } else {
    tell_dropped(batch, written.error());
  }
}

// In the server's log, too: the metrics of a server that stops are not read any more.
void RequestLog::drop_at_stop(std::span<const Batch> batches) {
  dropped_at_stop().add(batches.size());
  ptrdiff_t records = 0;
  for (const Batch& batch : batches) records += std::ranges::count(batch.lines, '\n');
  log::warn("bucket log: the stop had no time for {} records: {} log objects are not delivered", records,
            batches.size());
}

bool RequestLog::is_late() const { return stop_ && std::chrono::steady_clock::now() >= stop_by_; }

// Limits messages in the server's own log, which tenants could otherwise fill.
void RequestLog::tell_dropped(const Batch& batch, const Error& error) {
  dropped(error.code == Errc::quota_exceeded ? "quota" : "target").add();
  ++untold_;
  const auto now = std::chrono::steady_clock::now();
  if (now < tell_at_) return;
  tell_at_ = now + tell_every;
  log::warn("bucket log: to {}: {}; batches dropped since the last such line: {}", batch.rule.target_bucket,
            describe(error), std::exchange(untold_, 0));
}

// Buckets with logging at the start of the server.
Task<> RequestLog::find_users() {
  const auto buckets = co_await service_.store.buckets();
  if (!buckets) co_return use();
  for (const auto& info : *buckets) {
    if (stop_) co_return;
    const auto document = co_await service_.store.document(info.name, logging_document);
    if (document) co_return use();
  }
}

void RequestLog::start() {
  asio::co_spawn(io_, loop(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

void RequestLog::begin_stop() {
  if (stop_) return;
  stop_by_ = std::chrono::steady_clock::now() + options_.stop_max;
  stop_ = true;
  asio::post(io_, [this] { timer_.cancel(); });
}

void RequestLog::stop() {
  if (!thread_.joinable()) return;
  begin_stop();
  thread_.join();
}

Task<> RequestLog::loop() {
  co_await find_users();
  const auto between = std::min<std::chrono::milliseconds>(options_.interval / 4, std::chrono::seconds(1));
  while (!stop_) {
    timer_.expires_after(between);
    // Checked again: stop() or wake() may have come before the timer was set.
    if (!stop_ && !is_woken()) co_await timer_.async_wait(asio::as_tuple(asio::use_awaitable));
    looks_.fetch_add(1, std::memory_order_relaxed);
    co_await deliver(false);
  }
  co_await deliver(true);
}

void name_requester(const Call& caller, LogRecord& record) {
  const auth::Principal* const principal = principal_of(caller);
  if (caller.identity.anonymous || principal == nullptr) return;
  const bool root = principal->kind == auth::Principal::Kind::account_root;
  record.requester = root ? principal->account->canonical_id : principal->arn;
}

void LogEntry::finish(const call::Answered& answered, const call::Details& details) {
  record.status = answered.status;
  record.error_code = details.error_code;
  record.total_ms = details.duration_us / 1000;
  if (!of_source) {
    record.bytes_sent = details.bytes_out;
    record.object_size = details.object_size;
  }
  log.add(*this);
}

}  // namespace verbena::s3
