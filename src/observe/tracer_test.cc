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

TEST(Tracer, DoesAsTheCallerSaysAndElseByItsRatio) {
  const auto always = Tracer::create(nowhere(1, 1000));
  ASSERT_TRUE(always);
  EXPECT_TRUE((*always)->begin(std::nullopt, 1).wanted);
  EXPECT_FALSE((*always)->begin(caller(false), 1).wanted) << "its caller records nothing";
  const auto never = Tracer::create(nowhere(0, 1000));
  EXPECT_FALSE((*never)->begin(std::nullopt, 1).wanted);
  const Traced traced = (*never)->begin(caller(true), 1);
  EXPECT_TRUE(traced.wanted);
  EXPECT_EQ(traced.context.trace, caller(true).trace);
  const auto half = Tracer::create(nowhere(0.5, 100'000));
  int wanted = 0;
  for (int i = 0; i < 2000; ++i) wanted += (*half)->begin(std::nullopt, 1).wanted;
  EXPECT_GT(wanted, 800);
  EXPECT_LT(wanted, 1200);
}

TEST(Tracer, IsBoundedHoweverManyCallersAskForTheirs) {
  const auto few = Tracer::create(nowhere(1, 10));
  int wanted = 0;
  for (int i = 0; i < 1000; ++i) wanted += (*few)->begin(caller(true), 1).wanted;
  EXPECT_GE(wanted, 10);
  EXPECT_LE(wanted, 30) << "two seconds at most have gone by, or three";
}

TEST(Tracer, ADeadCollectorCostsTracesAndNothingElse) {
  const auto made = Tracer::create(nowhere(1, 100'000));
  ASSERT_TRUE(made);
  Tracer& tracer = **made;
  EXPECT_TRUE(requests_are_observed());
  const uint64_t before = tracer.dropped();
  const Traced traced = tracer.begin(std::nullopt, ticks());
  for (size_t i = 0; i < Tracer::buffered_max + 100; ++i) tracer.end(traced, get_line(), RequestTrace());
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
  (*made)->end((*made)->begin(std::nullopt, ticks()), get_line(), RequestTrace());
  for (int i = 0; i < 1000 && (*made)->dropped() == before; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ((*made)->dropped() - before, 1u);
  EXPECT_EQ(collector.asked(), 3) << "as often as it is tried";
}

TEST(Tracer, AStopCutsACallAndTriesOnceMoreForAShortTime) {
  const SilentCollector collector;
  auto made = Tracer::create(silent(collector, std::chrono::minutes(10)));
  ASSERT_TRUE(made);
  (*made)->end((*made)->begin(std::nullopt, ticks()), get_line(), RequestTrace());
  for (int i = 0; i < 1000 && collector.asked() == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const auto began = SteadyClock::now();
  made->reset();
  EXPECT_LT(SteadyClock::now() - began, std::chrono::seconds(60));
  EXPECT_EQ(collector.asked(), 2);
}

}  // namespace
}  // namespace verbena::observe
