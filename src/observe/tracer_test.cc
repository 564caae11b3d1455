#include "observe/tracer.h"

#include <gtest/gtest.h>

#include <sys/socket.h>

#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "net/testing/scripted_server.h"
#include "observe/otlp.h"

namespace verbena::observe {
namespace {

using Json = nlohmann::json;

// Nothing listens there: sent traces are lost.
Tracer::Options nowhere(double ratio, unsigned per_second) {
  Tracer::Options options{.endpoint = "http://127.0.0.1:1"};
  options.sample_ratio = ratio;
  options.per_second_max = per_second;
  options.gather = std::chrono::hours(1);
  return options;
}

TraceContext caller(bool sampled) {
  TraceContext context;
  context.trace[0] = context.parent[0] = std::byte{7};
  context.sampled = sampled;
  return context;
}

Line get_line() {
  Line line;
  line.time_us = 1'700'000'000'000'000;
  line.action = "GET object";
  line.door = "http";
  line.bucket = "photos";
  line.key = "a\x1b\"b";
  line.status = 200;
  line.bytes_out = 4096;
  return line;
}

// Whether a request with this trace of its caller's would be sent.
bool is_traced(Tracer& tracer, const std::optional<TraceContext>& of_caller, bool is_signed = true) {
  const Traced traced = tracer.begin(of_caller, 1);
  return traced.wanted && tracer.end(traced, get_line(), RequestTrace(), is_signed);
}

int traced_of(Tracer& tracer, int requests, const std::optional<TraceContext>& of_caller, bool is_signed = true) {
  int count = 0;
  for (int i = 0; i < requests; ++i) count += is_traced(tracer, of_caller, is_signed);
  return count;
}

TEST(Tracer, DoesAsTheCallerSaysAndElseByItsRatio) {
  const auto always = Tracer::create(nowhere(1, 1000));
  ASSERT_TRUE(always);
  EXPECT_TRUE(is_traced(**always, std::nullopt));
  EXPECT_FALSE(is_traced(**always, caller(false))) << "its caller records nothing";
  const auto never = Tracer::create(nowhere(0, 1000));
  EXPECT_FALSE(is_traced(**never, std::nullopt));
  EXPECT_TRUE(is_traced(**never, caller(true)));
  EXPECT_EQ((*never)->begin(caller(true), 1).context.trace, caller(true).trace);
  const auto half = Tracer::create(nowhere(0.5, 100'000));
  const int wanted = traced_of(**half, 2000, std::nullopt);
  EXPECT_GT(wanted, 800);
  EXPECT_LT(wanted, 1200);
}

TEST(Tracer, IsBoundedHoweverManyCallersAskForTheirs) {
  const auto few = Tracer::create(nowhere(1, 10));
  const int wanted = traced_of(**few, 1000, caller(true));
  EXPECT_GE(wanted, 5);
  EXPECT_LE(wanted, 15) << "two seconds at most have gone by, or three";
}

// They used up the traces of each second, and of the operator's sample there were none.
TEST(Tracer, StrangersAndCallersLeaveTheSampleItsPart) {
  const auto never = Tracer::create(nowhere(0, 1000));
  EXPECT_EQ(traced_of(**never, 1000, caller(true), /*is_signed=*/false), 0) << "a stranger's trace counts for nothing";
  const auto always = Tracer::create(nowhere(1, 1000));
  EXPECT_TRUE(is_traced(**always, caller(false), /*is_signed=*/false)) << "nor does it hide a request";
  const auto second = [] {
    return std::chrono::duration_cast<std::chrono::seconds>(SteadyClock::now().time_since_epoch());
  };
  int of_callers = 0, of_sample = 0;
  for (bool in_one_second = false; !in_one_second;) {
    const auto tracer = Tracer::create(nowhere(1, 101));
    const auto began = second();
    of_callers = traced_of(**tracer, 200, caller(true));
    of_sample = traced_of(**tracer, 200, std::nullopt);
    in_one_second = second() == began;
  }
  EXPECT_EQ(of_callers, 51);
  EXPECT_EQ(of_sample, 50);
}

TEST(Tracer, ADeadCollectorCostsTracesAndNothingElse) {
  const auto made = Tracer::create(nowhere(1, 100'000));
  ASSERT_TRUE(made);
  Tracer& tracer = **made;
  EXPECT_TRUE(requests_are_observed());
  const uint64_t before = tracer.dropped();
  const Traced traced = tracer.begin(std::nullopt, ticks());
  for (size_t i = 0; i < Tracer::buffered_max + 100; ++i) tracer.end(traced, get_line(), RequestTrace(), true);
  EXPECT_EQ(tracer.dropped() - before, 100u) << "what the buffer holds waits, the rest is counted";
}

TEST(Tracer, KnowsWhatIsNoCollector) {
  for (const char* endpoint :
       {"ftp://x", "http://", "http://user:word@host", "http://h:port", "http://h/a?b", "http://h h"}) {
    Tracer::Options options;
    options.endpoint = endpoint;
    EXPECT_FALSE(Tracer::create(options)) << endpoint;
  }
}

TEST(Tracer, HeadersAreReadAsOthersWriteThem) {
  using Headers = std::vector<std::pair<std::string, std::string>>;
  EXPECT_EQ(parse_trace_headers("authorization=Bearer x=y, x-team = storage"),
            (Headers{{"authorization", "Bearer x=y"}, {"x-team", "storage"}}));
  EXPECT_EQ(parse_trace_headers("=x,nothing,a\r\nb=c,d=e\r\nf,,"), Headers());
}

TEST(Otlp, ARequestIsASpanWithItsWayBelowIt) {
  tick_source();
  const uint64_t began = ticks();
  RequestTrace trace;
  trace.add(Stage::read, began, began + 1000);
  trace.add(Stage::open, began + 1000, began + 2000);
  trace.add(Stage::disk, began + 2000, began + 5000);
  trace.add(Stage::disk, began + 6000, began + 9000);
  SpanIds ids;
  ids.trace.fill(std::byte{0xab});
  ids.span.fill(std::byte{0x01});
  ids.parent.fill(std::byte{0x02});
  SpanDocument document({"1.2.3", "here"});
  document.add(ids, get_line(), trace, began, began + 20'000);
  const Json spans = Json::parse(std::move(document).finish())["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 5u);
  EXPECT_EQ(spans[0]["name"], "GET object");
  EXPECT_EQ(spans[0]["parentSpanId"], "0202020202020202");
  EXPECT_EQ(spans[0]["startTimeUnixNano"], "1700000000000000000");
  std::vector<std::string> names;
  for (const Json& span : spans) {
    names.push_back(span["name"]);
    EXPECT_EQ(span["traceId"], std::string(32, 'a').replace(0, 32, "abababababababababababababababab"));
    EXPECT_LE(std::stoull(span["startTimeUnixNano"].get<std::string>()),
              std::stoull(span["endTimeUnixNano"].get<std::string>()));
    const bool below = span["name"] != "GET object";
    EXPECT_EQ(span["parentSpanId"], below ? "0101010101010101" : "0202020202020202");
  }
  EXPECT_EQ(names, (std::vector<std::string>{"GET object", "read", "open", "disk", "reply"}));
}

TEST(Otlp, OfNoRequestThereIsADocumentWithoutSpans) {
  const Json document = Json::parse(SpanDocument({"1", "x"}).finish());
  EXPECT_TRUE(document["resourceSpans"][0]["scopeSpans"][0]["spans"].empty());
}

// A collector that takes connections and says nothing.
class SilentCollector {
 public:
  SilentCollector() : server_([this](int fd) { take(fd); }) {}
  std::string url() const { return server_.url(); }
  int asked() const { return asked_; }

 private:
  void take(int fd) {
    char bytes[4096];
    if (::recv(fd, bytes, sizeof bytes, 0) > 0) ++asked_;
    while (::recv(fd, bytes, sizeof bytes, 0) > 0) {
    }
  }
  std::atomic<int> asked_{0};
  net::ScriptedServer server_;
};

Tracer::Options silent(const SilentCollector& collector, std::chrono::milliseconds timeout) {
  Tracer::Options options{.endpoint = collector.url()};
  options.sample_ratio = 1;
  options.gather = std::chrono::milliseconds(1);
  options.timeout = timeout;
  return options;
}

TEST(Tracer, ASilentCollectorIsGivenUp) {
  const SilentCollector collector;
  const auto made = Tracer::create(silent(collector, std::chrono::milliseconds(50)));
  ASSERT_TRUE(made);
  const uint64_t before = (*made)->dropped();
  (*made)->end((*made)->begin(std::nullopt, ticks()), get_line(), RequestTrace(), true);
  for (int i = 0; i < 1000 && (*made)->dropped() == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ((*made)->dropped() - before, 1u);
  EXPECT_EQ(collector.asked(), 3) << "as often as it is tried";
}

TEST(Tracer, AStopCutsACallAndTriesOnceMoreForAShortTime) {
  const SilentCollector collector;
  auto made = Tracer::create(silent(collector, std::chrono::minutes(10)));
  ASSERT_TRUE(made);
  (*made)->end((*made)->begin(std::nullopt, ticks()), get_line(), RequestTrace(), true);
  for (int i = 0; i < 1000 && collector.asked() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto began = SteadyClock::now();
  made->reset();
  EXPECT_LT(SteadyClock::now() - began, std::chrono::seconds(60));
  EXPECT_EQ(collector.asked(), 2);
}

}  // namespace
}  // namespace verbena::observe
