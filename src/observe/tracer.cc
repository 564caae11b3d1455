#include "observe/tracer.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/log.h"
#include "base/text.h"
#include "net/url.h"
#include "observe/otlp.h"
#include "observe/record.h"

namespace verbena::observe {
namespace {

constexpr int tries_max = 3;
constexpr std::chrono::milliseconds between_tries{1000};
constexpr std::chrono::milliseconds last_timeout{1000};  // at the stop of the server
constexpr size_t answer_bytes_max = 64 * KiB;
constexpr std::string_view path_of_traces = "/v1/traces";

metrics::Counter& lost_counter(const char* reason) {
  return metrics::counter("verbena_traces_lost_total", "Traces that did not reach the collector", {{"reason", reason}});
}

// A generator of the thread's own (splitmix64: Steele, Lea, Flood 2014), seeded by the system: ids of traces are not
// secret, and are made while requests wait.
uint64_t next_random() {
  thread_local uint64_t state = [] {
    uint64_t seed = 0;
    fill_random(std::as_writable_bytes(std::span(&seed, 1)));
    return seed;
  }();
  uint64_t x = state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

template <size_t N>
void fill_id(std::array<std::byte, N>& id) {
  for (size_t at = 0; at < N; at += 8) {
    const uint64_t word = next_random() | (at == 0 ? 1 : 0);  // never zeros
    std::ranges::copy(std::as_bytes(std::span(&word, 1)), id.begin() + static_cast<ptrdiff_t>(at));
  }
}

bool is_header_part(std::string_view text, bool name) {
  return std::ranges::all_of(text, [&](char c) { return c > 0x20 - !name && c < 0x7f && (!name || c != ':'); });
}

}  // namespace

std::vector<std::pair<std::string, std::string>> parse_trace_headers(std::string_view text) {
  std::vector<std::pair<std::string, std::string>> headers;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    const size_t equals = one.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view name = trim(one.substr(0, equals)), value = trim(one.substr(equals + 1));
    if (name.empty() || !is_header_part(name, true) || !is_header_part(value, false)) continue;
    headers.emplace_back(name, value);
  }
  return headers;
}

std::expected<std::unique_ptr<Tracer>, std::string> Tracer::create(Options options) {
  auto url = net::parse_http_url(options.endpoint);
  if (!url || url->target.contains('?')) {
    return std::unexpected("an address like http://HOST:PORT or https://HOST:PORT/PATH, without a query");
  }
  net::HttpOptions http{.host = url->host, .port = url->port, .tls = url->tls};
  http.connect_timeout = http.stall_timeout = options.timeout;
  http.idle_connections_max = 1;
  auto client = net::HttpClient::create(std::move(http));
  if (!client) return std::unexpected(std::string(client.error().context));
  const std::string target = url->target == "/" ? std::string(path_of_traces) : url->target;
  return std::unique_ptr<Tracer>(new Tracer(std::move(options), target, std::move(*client)));
}

Tracer::Tracer(Options options, std::string target, std::unique_ptr<net::HttpClient> client)
    : options_(std::move(options)),
      target_(std::move(target)),
      client_(std::move(client)),
      instance_([] {
        std::array<std::byte, 8> random;
        fill_random(random);
        return to_hex(random);
      }()),
      sent_(metrics::counter("verbena_traces_sent_total", "Traces that the collector has received")),
      full_(lost_counter("buffer")),
      refused_(lost_counter("collector")),
      sender_([this] { run(); }) {
  tick_source();
}

Tracer::~Tracer() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;  // cuts a call under way that is not the last one
  }
  wake_.notify_one();
  sender_.join();
}

bool PerSecond::take(unsigned max) {
  const auto now = std::chrono::duration_cast<std::chrono::seconds>(SteadyClock::now().time_since_epoch()).count();
  const uint64_t second = static_cast<uint64_t>(now) << 32;
  uint64_t seen = window_.load(std::memory_order_relaxed);
  for (;;) {
    const uint64_t count = (seen & ~uint64_t{0xffffffff}) == second ? seen & 0xffffffff : 0;
    if (count >= max) return false;
    if (window_.compare_exchange_weak(seen, second | (count + 1), std::memory_order_relaxed)) return true;
  }
}

bool Tracer::in_sample() {
  constexpr double all = 18446744073709551616.0;
  return static_cast<double>(next_random()) < options_.sample_ratio * all && all_.take(options_.per_second_max);
}

Traced Tracer::begin(const std::optional<TraceContext>& of_caller, uint64_t began) {
  Traced traced{.wanted = false, .of_caller = of_caller.has_value(), .began = began, .context = {}};
  traced.wanted = of_caller || in_sample();
  if (of_caller) {
    traced.context = *of_caller;
  } else if (traced.wanted) {
    fill_id(traced.context.trace);
  }
  return traced;
}

bool Tracer::end(const Traced& traced, const Line& line, const RequestTrace& trace, bool is_signed) {
  Ended one{.traced = traced, .ended = 0, .trace = {}, .record = {}};
  if (traced.of_caller && is_signed) {
    const unsigned of_callers_max = options_.per_second_max / 2 + options_.per_second_max % 2;
    if (!traced.context.sampled || !of_callers_.take(of_callers_max) || !all_.take(options_.per_second_max))
      return false;
  } else if (traced.of_caller) {
    if (!in_sample()) return false;
    one.traced.context = {};
    fill_id(one.traced.context.trace);
  }
  one.ended = ticks();
  one.trace = trace;
  append_record(one.record, line);
  std::unique_lock lock(mutex_, std::try_to_lock);
  for (int i = 0; !lock && i < 200; ++i) (void)lock.try_lock();
  if (!lock || waiting_.size() >= buffered_max) {
    full_.add();
    return false;
  }
  waiting_.push_back(std::move(one));
  return true;
}

void Tracer::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    wake_.wait_for(lock, options_.gather, [this] { return stopping_.load(); });
    while (!waiting_.empty()) {
      const size_t count = std::min(waiting_.size(), batch_max);
      const auto end = waiting_.begin() + static_cast<ptrdiff_t>(count);
      std::vector<Ended> batch(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
      waiting_.erase(waiting_.begin(), end);
      const bool last = stopping_;
      lock.unlock();
      send(batch, last);
      lock.lock();
      if (last) break;
    }
  }
}

std::string Tracer::encode(const std::vector<Ended>& traces) const {
  SpanDocument document({VERBENA_VERSION, instance_});
  for (const Ended& one : traces) {
    std::string_view rest = one.record;
    const Line line = take_record(rest);
    SpanIds ids{.trace = one.traced.context.trace, .span = {}, .parent = one.traced.context.parent};
    fill_id(ids.span);
    document.add(ids, line, one.trace, one.traced.began, one.ended);
  }
  return std::move(document).finish();
}

Result<int> Tracer::post(const std::string& document, bool last) const {
  net::HttpRequest request{
      .method = "POST",
      .target = target_,
      .headers = {{"content-type", "application/json"}, {"user-agent", "verbena/" VERBENA_VERSION}},
      .body = as_bytes(document),
      .collected_body_max = answer_bytes_max,
      .status_suffices = true,
      .replayable = true};
  for (const auto& own : options_.headers) {
    std::erase_if(request.headers, [&](const auto& usual) { return usual.first == lower(own.first); });
    request.headers.push_back(own);
  }
  request.deadline = deadline_in(last ? std::min(options_.timeout, last_timeout) : options_.timeout);
  if (!last) request.stop = stopping_;
  VB_ASSIGN(const net::HttpReply reply, client_->request(request));
  return reply.status;
}

void Tracer::send(const std::vector<Ended>& traces, bool last) {
  const std::string document = encode(traces);
  for (int i = 1;; ++i) {
    if (!last) {
      const std::lock_guard lock(mutex_);
      last = stopping_;
    }
    const auto status = post(document, last);
    if (status && *status / 100 == 2) {
      sent_.add(traces.size());
      return;
    }
    // Traces that the collector refused permanently are not sent again.
    const bool again = !status || *status == 429 || *status >= 500;
    std::unique_lock lock(mutex_);
    if (!again || last || (i >= tries_max && !stopping_)) break;
    // A call that the stop cut or delayed is tried once more.
    last = wake_.wait_for(lock, between_tries, [this] { return stopping_.load(); });
  }
  refused_.add(traces.size());
  log::debug("traces: the collector at {} does not take them", options_.endpoint);
}

}  // namespace verbena::observe
