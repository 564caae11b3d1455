// What policies see. The same request by every way has the same condition keys, so a denial that asks for one of them
// refuses it on each way alike. A way that must differ says so in its row; docs/security.md lists these for users.
#include <fmt/format.h>

#include <functional>
#include <optional>
#include <set>
#include <vector>

#include "requests.h"

namespace verbena::matrix {
namespace {

constexpr const char* bucket = "keys";
constexpr size_t size = 300;

enum class Asked { get, get_version, head, put, put_new, remove, list };
constexpr const char* ask_names[] = {"get", "get version", "head", "put", "put new", "remove", "list"};

// One way to ask for something. `ask` says whether it was refused for want of a right.
struct Probe {
  std::string way;
  Asked what;
  Via via = Via::http;
  bool encrypted = false;
  std::function<bool(const std::string& key)> ask;
};

// A condition, for which requests it must hold, and why not for all, where it is so.
struct Key {
  const char* condition;
  std::set<Asked> asks;
  std::function<bool(const Probe&)> holds = [](const Probe&) { return true; };
  const char* differs = "";
};

const std::set<Asked> objects{Asked::get, Asked::get_version, Asked::head, Asked::put, Asked::put_new, Asked::remove};
const std::set<Asked> all{Asked::get,     Asked::get_version, Asked::head, Asked::put,
                          Asked::put_new, Asked::remove,      Asked::list};
const std::set<Asked> reads{Asked::get, Asked::head};
const std::set<Asked> writes{Asked::put, Asked::put_new};

bool by_native(const Probe& p) { return p.via == Via::native; }

std::vector<Key> keys() {
  std::vector<Key> rows{
      {R"({"StringEquals":{"aws:username":"bob"}})", all},
      {R"({"StringEquals":{"aws:RequestedRegion":"us-east-1"}})", all},
      {R"({"StringLike":{"s3:ResourceAccount":"*"}})", all},
      {R"({"DateGreaterThan":{"aws:CurrentTime":"2020-01-01T00:00:00Z"}})", all},
      {R"({"StringEquals":{"s3:signatureversion":"AWS4-HMAC-SHA256"}})", all},
      {R"({"StringLike":{"aws:UserAgent":"verbena-client/*"}})", all},
      {R"({"Null":{"aws:Referer":"true"}})", all},
      {R"({"Bool":{"aws:SecureTransport":"true"}})", all, [](const Probe& p) { return p.encrypted; },
       "tcp of the native door is encrypted; this server has no TLS"},
      {R"({"Null":{"s3:signatureAge":"true"}})", all, by_native, "a native message is authenticated as it is sent"},
      {R"({"Null":{"s3:x-amz-content-sha256":"true"}})", all,
       [](const Probe& p) { return by_native(p) || p.way == "POST form"; },
       "a native message has a MAC instead, a form's signature covers its policy"},
      {R"({"StringEquals":{"s3:x-amz-content-sha256":"UNSIGNED-PAYLOAD"}})", writes,
       [](const Probe& p) { return p.via == Via::token; }, "bytes that come by RDMA are compared with no hash"},
      {R"({"StringEquals":{"s3:authType":"REST-HEADER"}})", all, [](const Probe& p) { return p.way != "POST form"; },
       "a form is signed in a field"},
      {R"({"StringEquals":{"s3:authType":"POST"}})", all, [](const Probe& p) { return p.way == "POST form"; },
       "a form is signed in a field"},
      {R"({"StringEquals":{"s3:ExistingObjectTag/color":"blue"}})", reads},
      {R"({"StringEquals":{"s3:ExistingObjectTag/color":"red"}})", reads, [](const Probe&) { return false; },
       "no object has it"},
      {R"({"Null":{"s3:VersionId":"false"}})", objects, [](const Probe& p) { return p.what == Asked::get_version; },
       "the others name no version"},
      {R"({"Null":{"s3:if-none-match":"true"}})", writes, [](const Probe& p) { return p.what == Asked::put; },
       "the other has the condition"},
      {R"({"StringEquals":{"s3:if-none-match":"*"}})", writes, [](const Probe& p) { return p.what == Asked::put_new; },
       "the other has no condition"},
      {R"({"StringEquals":{"s3:ObjectCreationOperation":"true"}})", writes},
      {R"({"Null":{"s3:x-amz-storage-class":"true"}})", writes},
      {R"({"Null":{"s3:x-amz-copy-source":"false"}})", writes, [](const Probe& p) { return p.way == "copy"; },
       "the others are no copies"},
      {R"({"StringEquals":{"s3:prefix":"a/"}})", {Asked::list}},
      {R"({"StringEquals":{"s3:delimiter":"/"}})", {Asked::list}},
      {R"({"NumericEquals":{"s3:max-keys":"7"}})", {Asked::list}},
  };
  // Of the address there is one row that holds and one that does not.
  static const std::string here = R"({"IpAddress":{"aws:SourceIp":")" + test_address() + R"("}})";
  static const std::string elsewhere = R"({"NotIpAddress":{"aws:SourceIp":")" + test_address() + R"("}})";
  rows.push_back({here.c_str(), all});
  rows.push_back({elsewhere.c_str(), all, [](const Probe&) { return false; }, "requests come from this host"});
  return rows;
}

class PolicyKeys : public testing::TestWithParam<bool>, protected Requests {
 protected:
  PolicyKeys() {
    Config config = test_config();
    if (!GetParam()) config.cache.size = 0;
    start(std::move(config));
    EXPECT_EQ(send(root_, "PUT", std::string("/") + bucket), 200);
    EXPECT_EQ(send(root_, "PUT", std::string("/") + bucket + "?versioning",
                   "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"),
              200);
    const std::string bytes(as_text(random_bytes(size, 1)));
    EXPECT_EQ(send(root_, "PUT", path("a/there"), bytes, {{"x-amz-tagging", "color=blue"}}), 200);
    Client root = world_->client({Via::http, "auto"});
    version_ = root.head(bucket, "a/there")->version_id;
    EXPECT_FALSE(version_.empty());
  }
  ~PolicyKeys() override { end(); }

  static std::string path(const std::string& key) { return std::string("/") + bucket + "/" + key; }

  template <class Outcome>
  static bool refused(const Outcome& outcome) {
    if (outcome) return false;
    EXPECT_EQ(outcome.error().code, ErrorCode::access_denied) << outcome.error().message;
    return true;
  }

  void add(const Way& way, const char* kind, Asked what, std::function<bool(const std::string&)> ask) {
    const bool encrypted = way.via == Via::native && way.provider == "tcp";
    probes_.push_back({way.name() + kind, what, way.via, encrypted, std::move(ask)});
  }

  void add_single(const Way& way, const std::shared_ptr<Client>& c) {
    const auto get = [c](const GetOptions& options) {
      std::vector<std::byte> into(size);
      return refused(c->get(bucket, "a/there", std::span(into), options));
    };
    const auto put = [c](const std::string& key, const PutOptions& options) {
      const auto bytes = random_bytes(size, 1);
      return refused(c->put(bucket, key, std::span(bytes), options));
    };
    add(way, "", Asked::get, [get](const std::string&) { return get({}); });
    add(way, ", range", Asked::get, [get](const std::string&) { return get({.range = Range{5, 10}}); });
    if (way.via != Via::native) {
      add(way, "", Asked::get_version, [this, get](const std::string&) { return get({.version_id = version_}); });
    }
    add(way, "", Asked::head, [c](const std::string&) { return refused(c->head(bucket, "a/there")); });
    add(way, "", Asked::put, [put](const std::string& key) { return put(key, {}); });
    add(way, "", Asked::put_new, [put](const std::string& key) { return put(key, {.if_none_match = "*"}); });
    add(way, "", Asked::remove, [c](const std::string& key) { return refused(c->remove(bucket, key)); });
    add(way, "", Asked::list, [c](const std::string&) {
      return refused(c->list(bucket, {.prefix = "a/", .delimiter = "/", .max_keys = 7}));
    });
  }

  static bool refused(const std::optional<ErrorCode>& error) {
    EXPECT_EQ(error.value_or(ErrorCode::access_denied), ErrorCode::access_denied);
    return error.has_value();
  }

  void add_batches(const Way& way, const std::shared_ptr<Client>& c) {
    const auto into = std::make_shared<Buffer>(*c->allocate(size));
    const auto get = [c, into](const BatchItem& item) {
      BatchResult result;
      EXPECT_TRUE(c->get_many(std::span(&item, 1), std::span(into.get(), 1), std::span(&result, 1)));
      return refused(result.error);
    };
    const auto put = [c, into](const BatchItem& item) {
      BatchResult result;
      EXPECT_TRUE(c->put_many(std::span(&item, 1), std::span(into.get(), 1), std::span(&result, 1)));
      return refused(result.error);
    };
    add(way, ", batch", Asked::get,
        [get](const std::string&) { return get({.bucket = bucket, .key = "a/there", .size = size}); });
    add(way, ", batch", Asked::get_version, [this, get](const std::string&) {
      return get({.bucket = bucket, .key = "a/there", .size = size, .version_id = version_});
    });
    add(way, ", batch", Asked::head, [c](const std::string&) {
      const BatchItem item{.bucket = bucket, .key = "a/there"};
      BatchResult result;
      EXPECT_TRUE(c->head_many(std::span(&item, 1), std::span(&result, 1)));
      return refused(result.error);
    });
    add(way, ", batch", Asked::put,
        [put](const std::string& key) { return put({.bucket = bucket, .key = key, .size = size}); });
    add(way, ", batch", Asked::put_new, [put](const std::string& key) {
      return put({.bucket = bucket, .key = key, .size = size, .if_none_match = "*"});
    });
    add(way, ", batch", Asked::remove, [c](const std::string& key) {
      const BatchItem item{.bucket = bucket, .key = key};
      BatchResult result;
      EXPECT_TRUE(c->remove_many(std::span(&item, 1), std::span(&result, 1)));
      return refused(result.error);
    });
    add(way, ", listing with values", Asked::get, [c, into](const std::string&) {
      const auto page = c->list_values(bucket, *into, {.prefix = "a/there"});
      if (!page) return refused(page);  // a denial of the listing itself
      EXPECT_EQ(page->values.size(), 1u);
      return !page->values.empty() && page->values[0].error.has_value();
    });
  }

  void add_http_alone() {
    const std::string bytes(as_text(random_bytes(size, 1)));
    const auto status = [this](int got, int good) {
      EXPECT_TRUE(got == good || got == 403) << got << last_body_;
      return got == 403;
    };
    probes_.push_back({"POST form", Asked::put, Via::http, false,
                       [=, this](const std::string& key) { return status(post_form(bucket, key, bytes), 204); }});
    probes_.push_back({"copy", Asked::put, Via::http, false, [=, this](const std::string& key) {
                         const net::HttpHeaders headers{{"x-amz-copy-source", path("a/there")}};
                         return status(send(bob_, "PUT", path(key), "", headers), 200);
                       }});
  }

  void deny(const Key& key) {
    const std::string policy =
        fmt::format(R"({{"Version":"2012-10-17","Statement":[{{"Effect":"Deny","Principal":"*","Action":"s3:*",)"
                    R"("Resource":["arn:aws:s3:::{0}","arn:aws:s3:::{0}/*"],"Condition":{1}}}]}})",
                    bucket, key.condition);
    ASSERT_EQ(send(root_, "PUT", std::string("/") + bucket + "?policy", policy), 204) << last_body_;
  }

  std::vector<Probe> probes_;
  std::string version_;
};

TEST_P(PolicyKeys, AreTheSameByEveryWay) {
  for (const auto& way : every_way()) {
    const auto c = std::make_shared<Client>(client(way));
    (void)c->head(bucket, "a/there");
    add_single(way, c);
    if (way.via == Via::native) add_batches(way, c);
  }
  add_http_alone();
  int n = 0;
  for (const Key& key : keys()) {
    deny(key);
    for (const Probe& probe : probes_) {
      if (!key.asks.contains(probe.what)) continue;
      const std::string name =
          fmt::format("{}: {}, {}", probe.way, ask_names[static_cast<int>(probe.what)], key.condition);
      EXPECT_EQ(probe.ask(fmt::format("new{}", n++)), key.holds(probe)) << name << " " << key.differs;
    }
    // Allowed once more, so that fast ways have what they remember.
    ASSERT_EQ(send(root_, "DELETE", std::string("/") + bucket + "?policy"), 204);
    for (const Probe& probe : probes_) {
      if (!key.asks.contains(probe.what)) continue;
      EXPECT_FALSE(probe.ask(fmt::format("new{}", n++))) << probe.way << " without a policy";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Hot, PolicyKeys, testing::Bool(),
                         [](const auto& hot) { return std::string(hot.param ? "hot" : "cold"); });

}  // namespace
}  // namespace verbena::matrix
