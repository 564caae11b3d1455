// What requests leave behind. The same request by each way there is must leave the same: what rates are charged,
// counters of door, transport and bucket, the access log's line, the record in the bucket's own log, events. A new way
// is a row of the table below, and where a way has to differ the row says how and why.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <regex>
#include <sstream>
#include <thread>

#include "base/exposition.h"
#include "base/readings.h"
#include "rdma/transport.h"
#include "requests.h"
#include "store/local/pmem_log.h"
#include "store/local/pmem_stand_in.h"
#include "store/local/test_persistent_memory.h"

namespace verbena::matrix {
namespace {

constexpr const char* bucket = "effects";
constexpr const char* log_bucket = "effects-logs";
constexpr size_t small = 300, large = 40'000;  // inline in a native message, and not

struct Effect {
  uint64_t charged_requests = 0, charged_bytes = 0;
  uint64_t in = 0, out = 0;  // payload by door, by transport and of the bucket
  uint64_t gets = 0, puts = 0, others = 0;
  // Of the request's key, one for each request or item.
  std::vector<std::string> lines;    // "GET object 200 - in 0 out 300"
  std::vector<std::string> records;  // "REST.GET.OBJECT 200 - sent 300 size 300"
  std::vector<std::string> events;   // "ObjectCreated:Put"
};

enum class Ask { get_small, get_large, get_range, get_unchanged, get_missing, head, put, put_small, append, remove };

// What each request must leave behind, whatever its way.
Effect expected(Ask ask) {
  const auto line = [](std::string_view action, int status, std::string_view error, uint64_t in, uint64_t out) {
    return fmt::format("{} {} {} in {} out {}", action, status, error, in, out);
  };
  const auto record = [](std::string_view operation, int status, std::string_view error, uint64_t sent,
                         std::string_view size) {
    return fmt::format("{} {} {} sent {} size {}", operation, status, error, sent == 0 ? "-" : std::to_string(sent),
                       size);
  };
  Effect e;
  e.charged_requests = 1;
  const auto get = [&](size_t bytes, int status, std::string_view size) {
    e.charged_bytes = e.out = bytes;
    e.gets = 1;
    e.lines = {line("GET object", status, "-", 0, bytes)};
    e.records = {record("REST.GET.OBJECT", status, "-", bytes, size)};
  };
  switch (ask) {
    case Ask::get_small:
      get(small, 200, "300");
      break;
    case Ask::get_large:
      get(large, 200, "40000");
      break;
    case Ask::get_range:
      get(1000, 206, "40000");
      break;
    case Ask::get_unchanged:
      e.gets = 1;
      e.lines = {line("GET object", 304, "NotModified", 0, 0)};
      e.records = {record("REST.GET.OBJECT", 304, "NotModified", 0, "-")};
      break;
    case Ask::get_missing:
      e.lines = {line("GET object", 404, "NoSuchKey", 0, 0)};
      e.records = {record("REST.GET.OBJECT", 404, "NoSuchKey", 0, "-")};
      break;
    case Ask::head:
      e.others = 1;
      e.lines = {line("HEAD object", 200, "-", 0, 0)};
      e.records = {record("REST.HEAD.OBJECT", 200, "-", 0, "40000")};
      break;
    case Ask::put:
      e.charged_bytes = e.in = large;
      e.puts = 1;
      e.lines = {line("PUT object", 200, "-", large, 0)};
      e.records = {record("REST.PUT.OBJECT", 200, "-", 0, "40000")};
      e.events = {"ObjectCreated:Put"};
      break;
    case Ask::put_small:
      e.charged_bytes = e.in = small;
      e.puts = 1;
      e.lines = {line("PUT object", 200, "-", small, 0)};
      e.records = {record("REST.PUT.OBJECT", 200, "-", 0, "300")};
      e.events = {"ObjectCreated:Put"};
      break;
    case Ask::append:  // to the end of a large object
      e.charged_bytes = e.in = 1000;
      e.puts = 1;
      e.lines = {line("PUT object", 200, "-", 1000, 0)};
      e.records = {record("REST.PUT.OBJECT", 200, "-", 0, "41000")};
      e.events = {"ObjectCreated:Put"};
      break;
    case Ask::remove:
      e.others = 1;
      e.lines = {line("DELETE object", 204, "-", 0, 0)};
      e.records = {record("REST.DELETE.OBJECT", 204, "-", 0, "-")};
      e.events = {"ObjectRemoved:Delete"};
      break;
  }
  return e;
}

// What of a server is seen. Fast ways decline where rates are limited, and others where a log wants to know, so each
// setting takes ways that the others do not; where events are wanted, small PUTs go the slow way, and none is
// acknowledged from persistent memory.
struct Setting {
  const char* name;
  bool cached = true, rates = false, told = false, events = true, pmem = false;
};

// The model of persistent memory, with a log of a few MiB.
class SmallMemories final : public store::local::PersistentMemories {
 public:
  Result<std::unique_ptr<store::local::PersistentMemory>> open(const std::filesystem::path& folder, uint64_t /*size*/,
                                                               std::string& trouble) override {
    return model_.open(folder, 8 * store::local::PmemLog::size_min, trouble);
  }

 private:
  store::local::ModelMemories model_;
};

class Effects : public testing::TestWithParam<Setting>, protected Requests {
 protected:
  static Config config_of(const Setting& setting) {
    const std::filesystem::path place =
        std::filesystem::temp_directory_path() / fmt::format("verbena-effects-{}-{}", ::getpid(), setting.name);
    std::filesystem::create_directories(place);
    Config config = test_config();
    if (!setting.cached) config.cache.size = 0;
    if (setting.pmem) config.pmem = "/pmem";
    if (setting.told) config.access_log = place / "access.log";
    config.bucket_log_interval = std::chrono::seconds(1);
    config.events.targets = {"file=file://" + (place / "events").string()};
    return config;
  }

  Effects() {
    if (GetParam().pmem) store::local::stand_in_for_persistent_memory(&memories_);
    start(config_of(GetParam()));
    EXPECT_EQ(send(root_, "PUT", std::string("/") + bucket, "", {{"x-verbena-append", "enabled"}}), 200);
    set_up();
  }
  ~Effects() override {
    end();
    store::local::stand_in_for_persistent_memory(nullptr);
    const Config config = config_of(GetParam());
    std::filesystem::remove_all(std::filesystem::path(config.events.targets[0].substr(12)).parent_path());
  }

  void set_events() {
    EXPECT_EQ(send(root_, "PUT", std::string("/") + bucket + "?notification", R"(<NotificationConfiguration>
        <QueueConfiguration><Queue>arn:verbena:sqs::file:file</Queue><Event>s3:ObjectCreated:*</Event>
        <Event>s3:ObjectRemoved:*</Event></QueueConfiguration></NotificationConfiguration>)"),
              200);
  }

  void set_up() {
    if (GetParam().events) set_events();
    if (GetParam().rates) {
      const std::string quota = fmt::format(
          R"({{"bucket":"{}","quota":{{"requests_per_second":1000000,"bytes_per_second":1000000000000}}}})", bucket);
      EXPECT_EQ(send(root_, "POST", "/-/admin/quota-set", quota), 200);
    }
    if (!GetParam().told) return;
    EXPECT_EQ(send(root_, "PUT", std::string("/") + log_bucket), 200);
    EXPECT_EQ(send(root_, "PUT", std::string("/") + bucket + "?logging",
                   fmt::format(R"(<BucketLoggingStatus><LoggingEnabled><TargetBucket>{}</TargetBucket>
        <TargetPrefix>log/</TargetPrefix></LoggingEnabled></BucketLoggingStatus>)",
                               log_bucket)),
              200);
  }

  // Counters as they are now.
  using Counters = std::map<std::string, uint64_t>;
  static Counters counters() {
    Counters all;
    const auto read = [&](const char* name, const char* by, const std::string& only = "") {
      for (const auto& reading : metrics::read_values(name)) {
        if (!only.empty() && reading.labels.at("bucket") != only) continue;
        const std::string label = by == nullptr ? "" : reading.labels.at(by);
        const std::string direction = reading.labels.contains("direction") ? reading.labels.at("direction") : "";
        all[fmt::format("{}/{}/{}", name, label, direction)] += static_cast<uint64_t>(reading.value);
      }
    };
    read("verbena_door_bytes_total", "door");
    read("verbena_transport_bytes_total", "transport");
    read("verbena_quota_charged_requests_total", nullptr);
    read("verbena_quota_charged_bytes_total", nullptr);
    // Made by the caller that requests them.
    std::istringstream page(metrics::exposition());
    for (std::string line; std::getline(page, line);) {
      const bool counts =
          line.starts_with("verbena_bucket_requests_total") || line.starts_with("verbena_bucket_bytes_total");
      if (!counts || line.find(fmt::format("bucket=\"{}\"", bucket)) == std::string::npos) {
        continue;
      }
      all[line.substr(0, line.rfind(' '))] = std::stoull(line.substr(line.rfind(' ') + 1));
    }
    return all;
  }
  // What has come meanwhile, without what is as it was.
  static Counters since(const Counters& before) {
    Counters more;
    for (const auto& [name, value] : counters()) {
      const auto old = before.find(name);
      const uint64_t was = old == before.end() ? 0 : old->second;
      if (value != was) more[name] = value - was;
    }
    return more;
  }

 private:
  SmallMemories memories_;
};

// One way to ask for something.
struct Row {
  std::string way;
  Ask ask;
  std::string door, transport;
  // Asks for this key. A large object is there: a small one for get_small, none for put and get_missing.
  std::function<void(const std::string& key)> run;
  // Why this way leaves something else, and what.
  std::string differs{};
  std::function<void(Effect&)> change = nullptr;
};

class EffectsTable : public Effects {
 protected:
  static bool is_prepared(Ask ask) { return ask != Ask::put && ask != Ask::put_small && ask != Ask::get_missing; }
  static std::string key_of(size_t row) { return fmt::format("row{:03}", row); }

  // By the client library, which each door serves.
  void add_client_rows(const Way& way, const std::string& transport) {
    const std::string door(to_string(way.via));
    const auto c = std::make_shared<Client>(client(way));
    (void)c->head(bucket, "warm");  // opens what the client opens only once
    const auto add = [&](Ask ask, std::function<void(const std::string&)> run) {
      rows_.push_back({way.name(), ask, door, transport, std::move(run)});
      return &rows_.back();
    };
    const auto get = [this, c](const std::string& key, size_t size, const GetOptions& options) {
      std::vector<std::byte> into(size);
      return c->get(bucket, key, std::span(into), options);
    };
    add(Ask::get_small, [get](const std::string& key) { EXPECT_TRUE(get(key, small, {})); });
    add(Ask::get_large, [get](const std::string& key) { EXPECT_TRUE(get(key, large, {})); });
    add(Ask::get_range, [get](const std::string& key) { EXPECT_TRUE(get(key, 1000, {.range = Range{500, 1000}})); });
    add(Ask::get_unchanged, [get](const std::string& key) {
      EXPECT_EQ(get(key, large, {.if_none_match = "*"}).error().code, ErrorCode::not_modified);
    });
    Row* row = add(Ask::get_missing, [get](const std::string& key) {
      EXPECT_EQ(get(key, large, {}).error().code, ErrorCode::no_such_key);
    });
    if (way.via != Via::native) has_document(*row);
    add(Ask::head, [c](const std::string& key) { EXPECT_TRUE(c->head(bucket, key)); });
    const auto put = [c](const std::string& key, size_t size, const PutOptions& options) {
      const auto bytes = random_bytes(size, 1);
      const auto stored = c->put(bucket, key, std::span(bytes), options);
      EXPECT_TRUE(stored) << stored.error().message;
    };
    add(Ask::put, [put](const std::string& key) { put(key, large, {}); });
    add(Ask::put_small, [put](const std::string& key) { put(key, small, {}); });
    add(Ask::append, [put](const std::string& key) { put(key, 1000, {.append_at = large}); });
    add(Ask::remove, [c](const std::string& key) { EXPECT_TRUE(c->remove(bucket, key)); });
    if (way.via == Via::native) add_batch_rows(way, c, transport);
  }

  void add_batch_rows(const Way& way, const std::shared_ptr<Client>& c, const std::string& transport) {
    const auto add = [&](const char* name, Ask ask, std::function<void(const std::string&)> run) {
      rows_.push_back({way.name() + ", " + name, ask, "native", transport, std::move(run)});
      return &rows_.back();
    };
    const auto into = std::make_shared<Buffer>(*c->allocate(large));
    add("several ranges", Ask::get_range, [c, into](const std::string& key) {
      const Range ranges[] = {{0, 500}, {10'000, 500}};
      EXPECT_TRUE(c->get_ranges(bucket, key, ranges, *into));
    });
    const auto get_many = [c, into](BatchItem item, std::optional<ErrorCode> error) {
      BatchResult result;
      ASSERT_TRUE(c->get_many(std::span(&item, 1), std::span(into.get(), 1), std::span(&result, 1)));
      EXPECT_EQ(result.error, error);
    };
    add("batch", Ask::get_small,
        [get_many](const std::string& key) { get_many({.bucket = bucket, .key = key, .size = small}, std::nullopt); });
    add("batch", Ask::get_large,
        [get_many](const std::string& key) { get_many({.bucket = bucket, .key = key, .size = large}, std::nullopt); });
    add("batch", Ask::get_range, [get_many](const std::string& key) {
      get_many({.bucket = bucket, .key = key, .size = 1000, .range = Range{500, 1000}}, std::nullopt);
    });
    add("batch", Ask::get_unchanged, [get_many](const std::string& key) {
      get_many({.bucket = bucket, .key = key, .size = large, .if_none_match = "*"}, ErrorCode::not_modified);
    });
    add("batch", Ask::get_missing, [get_many](const std::string& key) {
      get_many({.bucket = bucket, .key = key, .size = large}, ErrorCode::no_such_key);
    });
    add("batch", Ask::head, [c](const std::string& key) {
      const BatchItem item{.bucket = bucket, .key = key};
      BatchResult result;
      ASSERT_TRUE(c->head_many(std::span(&item, 1), std::span(&result, 1)));
      EXPECT_FALSE(result.error);
    });
    add("batch", Ask::put, [c, into](const std::string& key) {
      const BatchItem item{.bucket = bucket, .key = key, .size = large};
      BatchResult result;
      ASSERT_TRUE(c->put_many(std::span(&item, 1), std::span(into.get(), 1), std::span(&result, 1)));
      EXPECT_FALSE(result.error);
    });
    add("batch", Ask::put_small, [c, into](const std::string& key) {
      const BatchItem item{.bucket = bucket, .key = key, .size = small};
      BatchResult result;
      ASSERT_TRUE(c->put_many(std::span(&item, 1), std::span(into.get(), 1), std::span(&result, 1)));
      EXPECT_FALSE(result.error);
    });
    Row* row = add("batch", Ask::remove, [c](const std::string& key) {
      const BatchItem item{.bucket = bucket, .key = key};
      BatchResult result;
      ASSERT_TRUE(c->remove_many(std::span(&item, 1), std::span(&result, 1)));
      EXPECT_FALSE(result.error);
    });
    row->differs = "a batch's removed keys are called as those of DeleteObjects are";
    row->change = [](Effect& e) { e.records = {"BATCH.DELETE.OBJECT 204 - sent - size -"}; };
    row = add("listing with values", Ask::get_large, [c, into](const std::string& key) {
      const auto page = c->list_values(bucket, *into, {.prefix = key});
      ASSERT_TRUE(page);
      ASSERT_EQ(page->values.size(), 1u);
      EXPECT_TRUE(page->values[0].offset);
    });
    row->differs =
        "the listing is a request of its own, whose key in the access log is its prefix; rates count it alone";
    row->change = [](Effect& e) {
      e.others = 1;
      e.lines.push_back("GET bucket?list-type 200 - in 0 out 0");
    };
  }

  static void has_document(Row& row) {
    row.differs = "an error over HTTP has a document, which is sent";
    row.change = [](Effect& e) {
      for (auto* texts : {&e.lines, &e.records}) {
        for (std::string& text : *texts) text += " and a document";
      }
    };
  }

  void add_http_rows() {
    const auto add = [&](const char* name, Ask ask, std::function<void(const std::string&)> run) {
      rows_.push_back({name, ask, "http", "http", std::move(run)});
      return &rows_.back();
    };
    const std::string bytes(as_text(random_bytes(large, 1)));
    const auto path = [](const std::string& key) { return std::string("/") + bucket + "/" + key; };
    Row* row = add("POST form", Ask::put, [this, bytes](const std::string& key) {
      EXPECT_EQ(post_form(bucket, key, bytes), 204) << last_body_;
    });
    row->differs = "a form is an action and an event of its own, and its bytes on the wire are more than the file";
    row->change = [](Effect& e) {
      e.lines = {"POST bucket 204 - in form out 0"};
      e.records = {"REST.POST.BUCKET 204 - sent - size 40000"};
      e.events = {"ObjectCreated:Post"};
    };
    row = add("copy", Ask::put, [this, path](const std::string& key) {
      EXPECT_EQ(send(bob_, "PUT", path(key), "", {{"x-amz-copy-source", path("warm")}}), 200) << last_body_;
    });
    row->differs = "a copy's bytes do not leave the server: rates are charged once, and no door moved them";
    row->change = [](Effect& e) {
      e.in = 0;
      e.lines = {"PUT object 200 - in 0 out document"};
      e.records = {"REST.PUT.OBJECT 200 - sent document size -"};
      e.events = {"ObjectCreated:Copy"};
    };
  }

  static Counters counters_of(const Row& row, const Effect& e, bool rates) {
    Counters all;
    const auto set = [&](const std::string& name, uint64_t n) {
      if (n != 0) all[name] = n;
    };
    set("verbena_door_bytes_total/" + row.door + "/in", e.in);
    set("verbena_door_bytes_total/" + row.door + "/out", e.out);
    set("verbena_transport_bytes_total/" + row.transport + "/in", e.in);
    set("verbena_transport_bytes_total/" + row.transport + "/out", e.out);
    const auto of_bucket = [&](const char* name, const char* label, const char* value, uint64_t n) {
      set(fmt::format("{}{{bucket=\"{}\",{}=\"{}\"}}", name, bucket, label, value), n);
    };
    of_bucket("verbena_bucket_requests_total", "op", "get", e.gets);
    of_bucket("verbena_bucket_requests_total", "op", "put", e.puts);
    of_bucket("verbena_bucket_requests_total", "op", "other", e.others);
    of_bucket("verbena_bucket_bytes_total", "direction", "in", e.in);
    of_bucket("verbena_bucket_bytes_total", "direction", "out", e.out);
    if (!rates) return all;
    set("verbena_quota_charged_requests_total//", e.charged_requests);
    set("verbena_quota_charged_bytes_total//", e.charged_bytes);
    return all;
  }

  void prepare() {
    Client root = world_->client({Via::http, "auto"});
    const auto put = [&](const std::string& key, size_t size) {
      const auto bytes = random_bytes(size, size);
      ASSERT_TRUE(root.put(bucket, key, std::span(bytes)));
      std::vector<std::byte> back(size);
      ASSERT_TRUE(root.get(bucket, key, std::span(back)));  // into the hot tier, where there is one
    };
    put("warm", large);
    for (const auto& way : every_way()) {
      const std::string transport = way.via == Via::http    ? "http"
                                    : way.via == Via::token ? transport_of(token_provider())
                                                            : transport_of(way.provider);
      add_client_rows(way, transport);
    }
    add_http_rows();
    for (size_t i = 0; i < rows_.size(); ++i) {
      if (is_prepared(rows_[i].ask)) put(key_of(i), rows_[i].ask == Ask::get_small ? small : large);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // a door counts when its answer is out
  }
  static std::string transport_of(const std::string& provider) {
    return std::string(to_string(rdma::transport_of(provider)));
  }

  static std::string counted(const Counters& counters) {
    std::string text;
    for (const auto& [name, value] : counters) text += fmt::format("  {} {}\n", name, value);
    return text.empty() ? "  nothing\n" : text;
  }

  static Effect wanted(const Row& row) {
    Effect e = expected(row.ask);
    if (row.change) row.change(e);
    return e;
  }

  static void expect_counted(const Counters& before, const Counters& want, const std::string& what) {
    const auto until = SteadyClock::now() + std::chrono::seconds(3);
    Counters got = since(before);
    while (got != want && SteadyClock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      got = since(before);
    }
    EXPECT_EQ(got, want) << what << "\ncounted\n" << counted(got) << "instead of\n" << counted(want);
  }

  // A difference without a reason is none that the table takes.
  void run_rows() {
    Client root = world_->client({Via::http, "auto"});
    for (size_t i = 0; i < rows_.size(); ++i) {
      const Row& row = rows_[i];
      ASSERT_EQ(row.differs.empty(), row.change == nullptr) << row.way;
      if (GetParam().pmem && is_prepared(row.ask)) put_again(root, i);
      const Counters before = counters();
      row.run(key_of(i));
      expect_counted(before, counters_of(row, wanted(row), GetParam().rates), row_name(i));
    }
  }

  // What a row asks for then waits in the log: the index gets it 100 ms later.
  void put_again(Client& root, size_t i) {
    const Ask ask = rows_[i].ask == Ask::get_small ? Ask::put_small : Ask::put;
    const auto bytes = random_bytes(ask == Ask::put ? large : small, 1);
    const Row put{.way = "again", .ask = ask, .door = "http", .transport = "http", .run = nullptr};
    const Counters before = counters();
    ASSERT_TRUE(root.put(bucket, key_of(i), std::span(bytes)));
    // The root key is charged nothing.
    expect_counted(before, counters_of(put, wanted(put), /*rates=*/false), row_name(i) + ", put again");
  }
  static uint64_t logged() {
    uint64_t all = 0;
    for (const auto& reading : metrics::read_values("verbena_store_pmem_total")) {
      all += static_cast<uint64_t>(reading.value);
    }
    return all;
  }

  std::string row_name(size_t i) const {
    static const std::map<Ask, const char*> asks{{Ask::get_small, "get small"},
                                                 {Ask::get_large, "get large"},
                                                 {Ask::get_range, "get range"},
                                                 {Ask::head, "head"},
                                                 {Ask::get_unchanged, "get unchanged"},
                                                 {Ask::get_missing, "get missing"},
                                                 {Ask::put, "put"},
                                                 {Ask::put_small, "put small"},
                                                 {Ask::append, "append"},
                                                 {Ask::remove, "remove"}};
    return rows_[i].way + ": " + asks.at(rows_[i].ask) + " (" + key_of(i) + ")";
  }

  // Rows' texts by key.
  using Texts = std::map<std::string, std::vector<std::string>>;

  Texts lines() const {
    Texts all;
    std::ifstream file(config_of(GetParam()).access_log);
    for (std::string text; std::getline(file, text);) {
      const Json line = Json::parse(text);
      if (line.value("access_key", "") != bob_.access_key || !line.contains("key")) continue;
      EXPECT_NE(line.value("id", ""), "") << text;
      const bool by_device = line.value("transport", "") == "rdma";
      EXPECT_TRUE(by_device || line["rdma_bytes"] == 0) << text;
      const std::string action = line["action"];
      const int status = line["status"];
      std::string in = std::to_string(line["bytes_in"].get<uint64_t>());
      std::string out = std::to_string(line["bytes_out"].get<uint64_t>());
      std::string more;
      if (status >= 400 && out != "0") out = "0", more = " and a document";
      if (action == "POST bucket" && std::stoull(in) > large) in = "form";
      if (action == "PUT object" && out != "0") out = "document";
      all[line["key"]].push_back(
          fmt::format("{} {} {} in {} out {}{}", action, status, line.value("error", "-"), in, out, more));
    }
    return all;
  }

  Texts records(Client& root) const {
    Texts all;
    static const std::regex form(
        R"re(^\S+ (\S+) \[[^\]]+\] (\S+) (\S+) ([0-9A-F]{16}) (\S+) (\S+) "([^"]*)" (\S+) (\S+) (\S+) (\S+) )re"
        R"re((\d+) - .*)re");
    EXPECT_TRUE(root.for_each(log_bucket, "", [&](const ObjectInfo& info) {
      std::vector<std::byte> bytes(info.size);
      EXPECT_TRUE(root.get(log_bucket, info.key, std::span(bytes)));
      std::istringstream text{std::string(as_text(bytes))};
      for (std::string line; std::getline(text, line);) {
        std::smatch m;
        EXPECT_TRUE(std::regex_match(line, m, form)) << line;
        if (m.empty() || m[3].str().find("user/bob") == std::string::npos || m[6] == "-") continue;
        EXPECT_EQ(m[2], test_address()) << line;
        EXPECT_EQ(m[7].str().find(m[6].str()) == std::string::npos, m[7].str().starts_with("POST ")) << line;
        EXPECT_NE(line.find(" SigV4 "), std::string::npos) << line;
        std::string sent = m[10], more;
        const std::string operation = m[5];
        if (std::stoi(m[8]) >= 400 && sent != "-") sent = "-", more = " and a document";
        if (operation == "REST.PUT.OBJECT" && sent != "-") sent = "document";
        all[m[6]].push_back(
            fmt::format("{} {} {} sent {} size {}{}", operation, m[8].str(), m[9].str(), sent, m[11].str(), more));
      }
      return true;
    }));
    return all;
  }

  Texts events() const {
    Texts all;
    std::ifstream file(config_of(GetParam()).events.targets[0].substr(12));
    for (std::string text; std::getline(file, text);) {
      const Json message = Json::parse(text);
      if (!message.contains("Records")) continue;  // of the configuration's own test
      for (const Json& record : message["Records"]) {
        all[record["s3"]["object"]["key"]].push_back(record["eventName"]);
      }
    }
    for (size_t i = 0; i < rows_.size(); ++i) {  // the one of prepare()
      auto& of = all[key_of(i)];
      if (is_prepared(rows_[i].ask) && !of.empty()) of.erase(of.begin());
    }
    return all;
  }

  template <class Read>
  void compare(const char* what, std::vector<std::string> Effect::* of, Read read) {
    Texts got;
    const auto all_there = [&] {
      got = read();
      for (size_t i = 0; i < rows_.size(); ++i) {
        if (got[key_of(i)].size() < (wanted(rows_[i]).*of).size()) return false;
      }
      return true;
    };
    const auto until = SteadyClock::now() + std::chrono::seconds(10);
    while (!all_there() && SteadyClock::now() < until) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    for (size_t i = 0; i < rows_.size(); ++i) {
      EXPECT_EQ(got[key_of(i)], wanted(rows_[i]).*of) << what << " of " << row_name(i);
    }
  }

  std::deque<Row> rows_;
};

TEST_P(EffectsTable, AreTheSameByEveryWay) {
  prepare();
  const uint64_t before = logged();
  run_rows();
  if (GetParam().pmem) {
    EXPECT_GT(logged(), before + rows_.size() / 2) << "too few were acknowledged from persistent memory";
  }
  ASSERT_GE(rows_.size(), 20 + 19 * test_providers().size());  // those of HTTP and tokens, and those of each provider
  for (const auto& reading : metrics::read_values("verbena_transport_bytes_total")) {
    const bool has_device = std::ranges::any_of(test_providers(), [](const std::string& provider) {
      return rdma::transport_of(provider) == rdma::Transport::rdma;
    });
    EXPECT_TRUE(reading.labels.at("transport") != "rdma" || (reading.value != 0) == has_device);
  }
  if (GetParam().events) compare("events", &Effect::events, [this] { return events(); });
  if (!GetParam().told) return;
  compare("access log", &Effect::lines, [this] { return lines(); });
  Client root = world_->client({Via::http, "auto"});
  compare("bucket log", &Effect::records, [&] { return records(root); });
}

INSTANTIATE_TEST_SUITE_P(Settings, EffectsTable,
                         testing::Values(Setting{"hot"}, Setting{"cold", false}, Setting{"hot_limited", true, true},
                                         Setting{"hot_limited_silent", true, true, false, false},
                                         Setting{"cold_limited", false, true}, Setting{"hot_told", true, false, true},
                                         Setting{"cold_told", false, true, true},
                                         Setting{"pmem", true, false, false, false, true},
                                         Setting{"pmem_cold_limited_told", false, true, true, false, true}),
                         [](const auto& setting) { return std::string(setting.param.name); });

}  // namespace
}  // namespace verbena::matrix
