#include "client/native/watch.h"

#include <algorithm>

#include "client/native/streams.h"
#include "native/wire/watch.h"

namespace verbena::client {
namespace {

namespace wire = native::wire;
using namespace std::chrono_literals;

constexpr auto wait_max = 20'000ms;  // then the request is repeated, which shows that both ends are alive
constexpr auto grace = 10s;          // extra time for an answer after its deadline
constexpr auto end_within = 1s;

struct BeginCall final : NativeCall {
  Result<void> answered(Bytes body) override {
    const auto reply = wire::decode_watch_started(body);
    if (!reply) return fail(Errc::malformed, "native: reply");
    watch = reply->watch;
    return {};
  }
  uint64_t watch = 0;
};

struct NextCall final : NativeCall {
  Result<void> answered(Bytes body) override {
    const auto told = wire::decode_watch_news(body);
    // Events that were delivered already are skipped.
    if (!told || told->upto < seen || told->upto - told->count < seen) return fail(Errc::malformed, "native: reply");
    news.gap = told->gap;
    upto = told->upto;
    wire::Reader changes(told->changes);
    for (uint16_t i = 0; i < told->count; ++i) {
      const auto change = wire::next_change(changes);
      if (change->what > wire::key_event_last) {  // whatever it is: the key may have changed
        news.gap = true;
        continue;
      }
      news.changes.push_back({.what = change->what,
                              .key = std::string(change->key),
                              .version_id = std::string(change->version),
                              .etag = std::string(change->etag),
                              .size = change->size,
                              .time_us = change->time_us,
                              .number = told->upto - told->count + 1 + i});
    }
    return {};
  }
  uint64_t seen = 0, upto = 0;
  NativeNews news;
};

bool session_lost(const Error& error) { return error == Errc::closed || error == Errc::connection_failed; }

// True when the request was not answered; its events come with the next one.
bool goes_on(const Error& error) {
  return error == Errc::timed_out || error == Errc::cancelled || error == Errc::slow_down ||
         error == Errc::request_timeout;
}

}  // namespace

NativeWatch::NativeWatch(std::shared_ptr<NativeSession> session, std::string bucket, std::string prefix)
    : session_(std::move(session)), bucket_(std::move(bucket)), prefix_(std::move(prefix)) {}

Result<std::unique_ptr<NativeWatch>> NativeWatch::open(std::shared_ptr<NativeSession> session, std::string bucket,
                                                       std::string prefix, const std::stop_token& stop) {
  if (bucket.size() > wire::bucket_size_max) return fail(Errc::invalid_bucket_name, "native: bucket");
  if (prefix.size() > wire::key_size_max) return fail(Errc::key_too_long, "native: prefix");
  std::unique_ptr<NativeWatch> watch(new NativeWatch(std::move(session), std::move(bucket), std::move(prefix)));
  const auto begin = [&](NativeStreams& streams) { return watch->begin(streams, stop); };
  VB_TRY(watch->session_->with_streams(true, begin));
  return watch;
}

NativeWatch::~NativeWatch() {
  if (streams_ == nullptr) return;
  CodeCall call;
  call.type = wire::Type::watch_end;
  call.deadline = deadline_in(end_within);
  call.patient = true;
  const auto prepare = [this](NativeStream::Body& body) -> Result<void> {
    encode(body.out, wire::WatchEnd{.watch = id_});
    return {};
  };
  (void)stream().run(call, prepare);  // in a broken session the watch has ended already
}

NativeStream& NativeWatch::stream() const { return streams_->stream_of(bucket_, prefix_); }

Result<void> NativeWatch::begin(NativeStreams& streams, const std::stop_token& stop) {
  forget();
  if (streams.version() < 4) return fail(Errc::unsupported, "native: the server does not report changes");
  BeginCall call;
  call.type = wire::Type::watch;
  call.deadline = deadline_in(session_->request_timeout());
  call.stop = stop;
  const auto prepare = [this](NativeStream::Body& body) -> Result<void> {
    encode(body.out, wire::Watch{.bucket = bucket_, .prefix = prefix_});
    return {};
  };
  VB_TRY(streams.stream_of(bucket_, prefix_).run(call, prepare));
  streams_ = streams.shared_from_this();
  id_ = call.watch;
  return {};
}

void NativeWatch::forget() {
  if (streams_ != nullptr) stream().end_watch(id_);
  streams_.reset();
  before_ += std::exchange(seen_, 0);
}

Result<NativeNews> NativeWatch::ask(NativeStreams& streams, Deadline until, const std::stop_token& stop) {
  if (streams_.get() != &streams) {
    VB_TRY(begin(streams, stop));
    ++before_;  // the gap has a number, too
    return NativeNews{.gap = true, .changes = {}};
  }
  const auto now = SteadyClock::now();
  const auto longest = std::clamp<std::chrono::milliseconds>(streams.idle_timeout() / 3, 1ms, wait_max);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::max(until, now) - now);
  const auto wait = std::min<std::chrono::milliseconds>(left, longest);
  NextCall call;
  call.type = wire::Type::watch_next;
  call.seen = seen_;
  call.stop = stop;
  call.deadline = now + wait + grace;
  if (wait.count() > 0 && until < call.deadline) {
    call.deadline = until;
    call.patient = true;
  }
  const auto prepare = [&](NativeStream::Body& body) -> Result<void> {
    encode(body.out, wire::WatchNext{.watch = id_, .seen = seen_, .wait_ms = static_cast<uint32_t>(wait.count())});
    return {};
  };
  VB_TRY(stream().run(call, prepare));
  streams.touch();  // the session was in use all this time
  seen_ = call.upto;
  for (NativeChange& change : call.news.changes) change.number += before_;
  return std::move(call.news);
}

Result<NativeNews> NativeWatch::next(Deadline until, const std::stop_token& stop) {
  for (bool again = false;;) {
    // Checked here too, for servers that answer each request at once, so that nothing waits in the stream.
    if (stop.stop_requested()) return fail(Errc::cancelled, "native: cancelled by the caller");
    NativeNews news;
    const auto once = [&](NativeStreams& streams) -> Result<void> {
      VB_ASSIGN(news, ask(streams, until, stop));
      return {};
    };
    const auto done = session_->with_streams(false, once);
    const bool over = SteadyClock::now() >= until;
    if (done) {
      if (news.gap || !news.changes.empty() || over) return news;
      again = false;
      continue;
    }
    const Error& error = done.error();
    // Events in an answer that came too late are sent again by the server.
    if (error == Errc::timed_out && over) return news;
    if (error == Errc::cancelled) return std::unexpected(error);
    // The server ended the watch and said so in an answer to an abandoned request: beginning it anew returns the
    // reason.
    const bool ended = error == Errc::invalid_request;
    if (ended) forget();
    if ((session_lost(error) || ended) && !again) {
      again = true;
      continue;
    }
    if (!goes_on(error)) forget();
    return std::unexpected(error);
  }
}

}  // namespace verbena::client
