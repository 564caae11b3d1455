// Bucket notifications: what may be configured, and what is said of each change.
#include <nlohmann/json.hpp>

#include "s3/access/test_access.h"
#include "s3/documents/notification_rules.h"
#include "s3/events/event_queues.h"
#include "s3/workers/lifecycle_worker.h"
#include "store/event.h"
#include "store/local/test_store.h"
#include "store/removal_grounds.h"

namespace verbena::s3::test {
namespace {

using nlohmann::json;

constexpr const char* hook_arn = "arn:verbena:sqs::hook:webhook";

std::string one_rule(const std::string& inside, const std::string& arn = hook_arn) {
  return "<NotificationConfiguration><QueueConfiguration><Queue>" + arn + "</Queue>" + inside +
         "</QueueConfiguration></NotificationConfiguration>";
}
std::string key_filter(const std::string& name, const std::string& value) {
  return "<FilterRule><Name>" + name + "</Name><Value>" + value + "</Value></FilterRule>";
}
std::string key_filters(const std::string& rules) { return "<Filter><S3Key>" + rules + "</S3Key></Filter>"; }

Task<bool> carry_out(LifecyclePass& pass) {
  co_await pass.run();
  co_return true;
}

class EventsTest : public AccessRig {
 protected:
  EventsTest() : queues_({{"hook", "webhook"}, {"list", "redis"}}, EventQueues::Limits{}) { service.events = &queues_; }

  Reply configure(const std::string& xml) { return as(alice_, "PUT", "/bucket?notification", xml); }
  void watch(const std::string& events) {
    std::string inside;
    for (size_t at = 0; at < events.size();) {
      const size_t end = std::min(events.find(' ', at), events.size());
      inside += "<Event>s3:" + events.substr(at, end - at) + "</Event>";
      at = end + 1;
    }
    ASSERT_EQ(configure(one_rule("<Id>rule</Id>" + inside)).status, 200);
    take();
  }
  // What waits for the target, which is taken away.
  std::vector<json> take(const std::string& queue = "hook") {
    std::vector<json> messages;
    const auto backlog = run(store.event_backlog(queue));
    for (const auto& one : *backlog) {
      std::vector<uint64_t> ids;
      uint64_t bytes = 0;
      const auto events = run(store.events(queue, one.bucket, 0, 1000, 1 * MiB));
      for (const auto& event : *events) {
        messages.push_back(json::parse(event.record));
        ids.push_back(event.id);
        bytes += event.record.size();
      }
      const size_t n = ids.size();
      EXPECT_TRUE(run(store.remove_events(queue, one.bucket, std::move(ids))));
      queues_.removed(queue, one.bucket, n, bytes);
    }
    return messages;
  }
  std::vector<std::string> names() {
    std::vector<std::string> names;
    for (const json& message : take()) names.push_back(message["Records"][0]["eventName"]);
    return names;
  }
  using Names = std::vector<std::string>;

  EventQueues queues_;
};

TEST_F(EventsTest, AConfigurationComesBackAsItWasSet) {
  EXPECT_EQ(as(alice_, "GET", "/bucket?notification").count("<NotificationConfiguration"), 1u);
  const std::string xml =
      "<NotificationConfiguration "
      "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><TopicConfiguration><Id>t</Id><Topic>"
      "arn:verbena:sns:us-east-1:list:redis</Topic><Event>s3:ObjectRemoved:*</Event></TopicConfiguration>"
      "<QueueConfiguration><Id>q</Id><Queue>arn:verbena:sqs::hook:webhook</Queue><Event>s3:ObjectCreated:Put</Event>"
      "<Event>s3:ObjectCreated:Copy</Event><Filter><S3Key><FilterRule><Name>Prefix</Name><Value>in/</Value></"
      "FilterRule>"
      "<FilterRule><Name>Suffix</Name><Value>.jpg</Value></FilterRule></S3Key></Filter></QueueConfiguration>"
      "<CloudFunctionConfiguration><Id>f</Id><CloudFunction>arn:verbena:lambda::hook:webhook</CloudFunction>"
      "<Event>s3:ObjectTagging:*</Event></CloudFunctionConfiguration></NotificationConfiguration>";
  ASSERT_EQ(configure(xml).status, 200);
  const Reply got = as(alice_, "GET", "/bucket?notification");
  EXPECT_EQ(got.body.substr(got.body.find("<Notification")), xml);
  EXPECT_EQ(take().size(), 1u) << "a test event for each target";
  EXPECT_EQ(take("list").size(), 1u);
  EXPECT_EQ(configure("<NotificationConfiguration/>").status, 200);
  EXPECT_EQ(as(alice_, "GET", "/bucket?notification").count("Configuration><"), 0u);
}

// Amazon S3 User Guide: special characters of a filter's value are URL-encoded.
TEST_F(EventsTest, FiltersAreUrlEncodedAndComeBackAsTheyCame) {
  const auto names_of = [&](const std::string& prefix, const std::string& target) {
    const std::string xml = one_rule("<Event>s3:ObjectCreated:*</Event>" + key_filters(key_filter("Prefix", prefix)));
    EXPECT_EQ(configure(xml).status, 200) << prefix;
    EXPECT_EQ(as(alice_, "GET", "/bucket?notification").count("<Value>" + prefix + "</Value>"), 1u) << prefix;
    take();
    EXPECT_EQ(as(alice_, "PUT", "/bucket/" + target, "x").status, 200);
    return names().size();
  };
  EXPECT_EQ(names_of("a+b/", "a%20b/x"), 1u);
  EXPECT_EQ(names_of("a%20b/", "a%20b/x"), 1u);
  EXPECT_EQ(names_of("a b/", "a%20b/x"), 1u) << "not encoded";
  EXPECT_EQ(names_of("a+b/", "a%2Bb/x"), 0u);
  EXPECT_EQ(names_of("a%2Bb/", "a%2Bb/x"), 1u);
  EXPECT_EQ(names_of("a%2bb%2F", "a%2Bb/x"), 1u);
  EXPECT_EQ(names_of("caf%C3%A9", "caf%C3%A9"), 1u);
  EXPECT_EQ(names_of("100%/", "100%25/x"), 1u) << "no escape";
  EXPECT_EQ(names_of("100%", "100%25/x"), 1u);
  const std::string put = "<Event>s3:ObjectCreated:Put</Event>";
  EXPECT_EQ(configure(one_rule(put + key_filters(key_filter("suffix", std::string(3 * 1024, '%') + "41")))).code,
            "InvalidArgument");
}

TEST_F(EventsTest, ATestEventComesFirst) {
  ASSERT_EQ(configure(one_rule("<Event>s3:ObjectCreated:*</Event>")).status, 200);
  const auto messages = take();
  ASSERT_EQ(messages.size(), 1u);
  EXPECT_EQ(messages[0]["Event"], "s3:TestEvent");
  EXPECT_EQ(messages[0]["Bucket"], "bucket");
  EXPECT_EQ(messages[0]["Service"], "Amazon S3");
  ASSERT_EQ(as(alice_, "PUT", "/bucket?notification", one_rule("<Event>s3:ObjectCreated:*</Event>"),
               {{"x-amz-skip-destination-validation", "True"}})
                .status,
            200);
  EXPECT_TRUE(take().empty());
}

TEST_F(EventsTest, WhatCannotBeConfigured) {
  const auto refused = [&](const std::string& xml, const std::string& code) {
    const Reply reply = configure(xml);
    EXPECT_EQ(reply.code, code) << xml << "\n" << reply.body;
    EXPECT_EQ(reply.status, code == "NotImplemented" ? 501 : 400);
  };
  const std::string put = "<Event>s3:ObjectCreated:Put</Event>";
  refused(one_rule(put, "arn:verbena:sqs::nobody:webhook"), "InvalidArgument");
  refused(one_rule(put, "arn:verbena:sqs::hook:redis"), "InvalidArgument");
  refused(one_rule(put, "arn:verbena:sqs:eu-west-1:hook:webhook"), "InvalidArgument");
  refused(one_rule(put, "arn:aws:sqs:us-east-1:123456789012:queue"), "InvalidArgument");
  refused(one_rule(put, ""), "InvalidArgument");
  refused(one_rule(""), "MalformedXML");
  refused(one_rule(put + "<Other/>"), "MalformedXML");
  for (const char* name :
       {"s3:ObjectRestore:*", "s3:Replication:*", "s3:ReducedRedundancyLostObject", "ObjectCreated:Put", "s3:", "s3:*",
        "s3:ObjectCreated", "s3:ObjectCreated:Nothing", "s3:Object:*"}) {
    refused(one_rule(std::string("<Event>") + name + "</Event>"), "InvalidArgument");
  }
  refused(one_rule(put + key_filters(key_filter("middle", "x"))), "InvalidArgument");
  refused(one_rule(put + key_filters(key_filter("prefix", "x") + key_filter("Prefix", "y"))), "InvalidArgument");
  refused(one_rule(put + key_filters(key_filter("suffix", std::string(1025, 'x')))), "InvalidArgument");
  refused(one_rule("<Id>" + std::string(256, 'i') + "</Id>" + put), "InvalidArgument");
  refused("<NotificationConfiguration><EventBridgeConfiguration/></NotificationConfiguration>", "NotImplemented");
  refused("<NotificationConfiguration><Other/></NotificationConfiguration>", "MalformedXML");
  refused("<Other/>", "MalformedXML");
  EXPECT_EQ(as(bob_, "PUT", "/bucket?notification", one_rule(put)).status, 403);
  EXPECT_EQ(as(bob_, "GET", "/bucket?notification").status, 403);
  EXPECT_EQ(as(alice_, "PUT", "/none?notification", one_rule(put)).code, "NoSuchBucket");
  EXPECT_TRUE(take().empty());
}

TEST_F(EventsTest, RulesMustNotOverlap) {
  const auto two = [&](const std::string& a, const std::string& b) {
    const auto rule = [](const std::string& inside) {
      return "<QueueConfiguration><Queue>arn:verbena:sqs::hook:webhook</Queue>" + inside + "</QueueConfiguration>";
    };
    return configure("<NotificationConfiguration>" + rule(a) + rule(b) + "</NotificationConfiguration>").status;
  };
  const std::string put = "<Event>s3:ObjectCreated:Put</Event>", all = "<Event>s3:ObjectCreated:*</Event>";
  EXPECT_EQ(two(put, all), 400);
  EXPECT_EQ(two(put + key_filters(key_filter("prefix", "a/")), all + key_filters(key_filter("prefix", "a/b"))), 400);
  EXPECT_EQ(two(put + key_filters(key_filter("prefix", "a")), put + key_filters(key_filter("suffix", ".jpg"))), 400);
  EXPECT_EQ(two(put + key_filters(key_filter("prefix", "a/")), put + key_filters(key_filter("prefix", "b/"))), 200);
  EXPECT_EQ(two(put + key_filters(key_filter("prefix", "a") + key_filter("suffix", ".jpg")),
                put + key_filters(key_filter("prefix", "a") + key_filter("suffix", ".png"))),
            200);
  EXPECT_EQ(two(put, "<Event>s3:ObjectCreated:Copy</Event>"), 200);
  EXPECT_EQ(two("<Id>x</Id>" + put, "<Id>x</Id><Event>s3:ObjectRemoved:*</Event>"), 400);
}

TEST_F(EventsTest, TwoTargetsMayBeToldOfOneChange) {
  const auto rule = [](const std::string& arn) {
    return "<QueueConfiguration><Queue>" + arn + "</Queue><Event>s3:ObjectCreated:*</Event></QueueConfiguration>";
  };
  ASSERT_EQ(configure("<NotificationConfiguration>" + rule(hook_arn) + rule("arn:verbena:sqs::list:redis") +
                      "</NotificationConfiguration>")
                .status,
            200);
  as(alice_, "PUT", "/bucket/k", "x");
  EXPECT_EQ(take().size(), 2u);
  EXPECT_EQ(take("list").size(), 2u);
}

TEST_F(EventsTest, ARecordSaysWhatAwsSays) {
  watch("ObjectCreated:*");
  const Reply put = as(alice_, "PUT", "/bucket/dir/a%20b%2Bc%C3%BC%22", "four");
  ASSERT_EQ(put.status, 200);
  const auto messages = take();
  ASSERT_EQ(messages.size(), 1u);
  ASSERT_EQ(messages[0]["Records"].size(), 1u);
  const json& record = messages[0]["Records"][0];
  EXPECT_EQ(record["eventVersion"], "2.1");
  EXPECT_EQ(record["eventSource"], "aws:s3");
  EXPECT_EQ(record["awsRegion"], "us-east-1");
  EXPECT_EQ(record["eventName"], "ObjectCreated:Put");
  EXPECT_EQ(record["eventTime"].get<std::string>().size(), 24u);
  EXPECT_EQ(record["userIdentity"]["principalId"], "AWS:111111111111");
  EXPECT_EQ(record["requestParameters"]["sourceIPAddress"], "127.0.0.1");
  EXPECT_EQ(record["responseElements"]["x-amz-request-id"], "0123456789ABCDEF");
  const json& s3 = record["s3"];
  EXPECT_EQ(s3["configurationId"], "rule");
  EXPECT_EQ(s3["bucket"]["name"], "bucket");
  EXPECT_EQ(s3["bucket"]["arn"], "arn:aws:s3:::bucket");
  EXPECT_EQ(s3["bucket"]["ownerIdentity"]["principalId"], "alice");
  EXPECT_EQ(s3["object"]["key"], "dir/a+b%2Bc%C3%BC%22");
  EXPECT_EQ(s3["object"]["size"], 4);
  EXPECT_EQ('"' + s3["object"]["eTag"].get<std::string>() + '"', put.header("etag"));
  EXPECT_FALSE(s3["object"].contains("versionId"));
  EXPECT_EQ(s3["object"]["sequencer"].get<std::string>().size(), 16u);
}

TEST_F(EventsTest, EachKindOfChange) {
  watch("ObjectCreated:* ObjectRemoved:* ObjectTagging:* ObjectAcl:Put");
  as(alice_, "PUT", "/bucket/a", "x");
  as(alice_, "PUT", "/bucket/b", "", {{"x-amz-copy-source", "/bucket/a"}});
  const std::string tags = "<Tagging><TagSet><Tag><Key>k</Key><Value>v</Value></Tag></TagSet></Tagging>";
  EXPECT_EQ(as(alice_, "PUT", "/bucket/a?tagging", tags).status, 200);
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/a?tagging").status, 204);
  EXPECT_EQ(as(alice_, "PUT", "/bucket/a?acl", "", {{"x-amz-acl", "public-read"}}).status, 200);
  const std::string id = as(alice_, "POST", "/bucket/large?uploads").element("UploadId");
  const Reply part = as(alice_, "PUT", "/bucket/large?partNumber=1&uploadId=" + id, "part");
  EXPECT_EQ(as(alice_, "POST", "/bucket/large?uploadId=" + id,
               "<CompleteMultipartUpload><Part><PartNumber>1</PartNumber><ETag>" + part.header("etag") +
                   "</ETag></Part></CompleteMultipartUpload>")
                .status,
            200);
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/a").status, 204);
  EXPECT_EQ(as(alice_, "DELETE", "/bucket/a").status, 204) << "which changes nothing";
  const std::string many = "<Delete><Object><Key>b</Key></Object><Object><Key>none</Key></Object></Delete>";
  EXPECT_EQ(as(alice_, "POST", "/bucket?delete", many, {{"content-md5", base64_digest(Algorithm::md5, many)}}).status,
            200);
  EXPECT_EQ(names(), (Names{"ObjectCreated:Put", "ObjectCreated:Copy", "ObjectTagging:Put", "ObjectTagging:Delete",
                            "ObjectAcl:Put", "ObjectCreated:CompleteMultipartUpload", "ObjectRemoved:Delete",
                            "ObjectRemoved:Delete"}));
}

TEST_F(EventsTest, VersionsAndTheirMarkers) {
  ASSERT_EQ(as(alice_, "PUT", "/bucket?versioning",
               "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>")
                .status,
            200);
  watch("ObjectCreated:* ObjectRemoved:*");
  const std::string version = as(alice_, "PUT", "/bucket/a", "x").header("x-amz-version-id");
  const std::string marker = as(alice_, "DELETE", "/bucket/a").header("x-amz-version-id");
  as(alice_, "DELETE", "/bucket/a?versionId=" + version);
  const auto messages = take();
  ASSERT_EQ(messages.size(), 3u);
  const auto object = [&](size_t i) { return messages[i]["Records"][0]["s3"]["object"]; };
  EXPECT_EQ(messages[1]["Records"][0]["eventName"], "ObjectRemoved:DeleteMarkerCreated");
  EXPECT_EQ(messages[2]["Records"][0]["eventName"], "ObjectRemoved:Delete");
  EXPECT_EQ(object(0)["versionId"], version);
  EXPECT_EQ(object(1)["versionId"], marker);
  EXPECT_EQ(object(2)["versionId"], version);
  EXPECT_LT(object(0)["sequencer"].get<std::string>(), object(1)["sequencer"].get<std::string>());
  EXPECT_LT(object(1)["sequencer"].get<std::string>(), object(2)["sequencer"].get<std::string>());
}

TEST_F(EventsTest, OnlyWhatARuleAsksFor) {
  ASSERT_EQ(configure(one_rule("<Event>s3:ObjectCreated:Put</Event>" +
                               key_filters(key_filter("prefix", "in/") + key_filter("suffix", ".jpg"))))
                .status,
            200);
  take();
  for (const char* key : {"in/a.jpg", "in/a.png", "out/a.jpg", "in/.jpg"})
    as(alice_, "PUT", "/bucket/" + std::string(key), "x");
  as(alice_, "PUT", "/bucket/in/copy.jpg", "", {{"x-amz-copy-source", "/bucket/in/a.jpg"}});
  as(alice_, "DELETE", "/bucket/in/a.jpg");
  EXPECT_EQ(names().size(), 2u);
  as(bob_, "PUT", "/bucket/in/b.jpg", "x");
  EXPECT_TRUE(take().empty()) << "what was denied";
}

TEST_F(EventsTest, WhatALifecycleRemoves) {
  watch("LifecycleExpiration:*");
  ASSERT_EQ(as(alice_, "PUT", "/bucket?lifecycle",
               "<LifecycleConfiguration><Rule><ID>r</ID><Filter><Prefix>old</Prefix></Filter><Status>Enabled</Status>"
               "<Expiration><Days>1</Days></Expiration></Rule></LifecycleConfiguration>",
               {})
                .status,
            200);
  as(alice_, "PUT", "/bucket/old", "x");
  class Later final : public WallClock {
   public:
    int64_t now_us() const override { return INT64_C(4'000'000'000'000'000); }
  } later;
  const std::atomic<bool> stop{false};
  LifecyclePass pass(store, later, {.day_s = 1, .page_size = 10, .pause = std::chrono::milliseconds(0)}, stop,
                     &service);
  run(carry_out(pass));
  const auto messages = take();
  ASSERT_EQ(messages.size(), 1u);
  const json& record = messages[0]["Records"][0];
  EXPECT_EQ(record["eventName"], "LifecycleExpiration:Delete");
  EXPECT_EQ(record["eventVersion"], "2.3");
  EXPECT_EQ(record["userIdentity"]["principalId"], "s3.amazonaws.com");
}

TEST_F(EventsTest, AFullQueueRefusesAndAnAccountLeavesRoomForOthers) {
  EventQueues small({{"hook", "webhook"}}, {.events_max = 8, .bytes_max = 1 * MiB});
  service.events = &small;
  ASSERT_EQ(configure(one_rule("<Event>s3:ObjectCreated:*</Event>")).status, 200);
  int stored = 0;
  Reply reply;
  while ((reply = as(alice_, "PUT", "/bucket/k" + std::to_string(stored), "x")).status == 200) ++stored;
  EXPECT_EQ(stored, 3) << "with the test event half of the queue";
  EXPECT_EQ(reply.code, "SlowDown");
  EXPECT_EQ(as(alice_, "GET", "/bucket/k3").status, 404);
  ASSERT_EQ(as(alice_, "PUT", "/another").status, 200);
  EXPECT_EQ(as(alice_, "PUT", "/another?notification", one_rule("<Event>s3:ObjectCreated:*</Event>")).code, "SlowDown")
      << "more buckets do not help";
  ASSERT_EQ(as(bob_, "PUT", "/bobs").status, 200);
  ASSERT_EQ(as(bob_, "PUT", "/bobs?notification", one_rule("<Event>s3:ObjectCreated:*</Event>")).status, 200);
  EXPECT_EQ(as(bob_, "PUT", "/bobs/k", "x").status, 200);
}

TEST_F(EventsTest, AFullQueueMayDropInstead) {
  EventQueues small({{"hook", "webhook"}}, {.events_max = 4, .bytes_max = 1 * MiB, .drop_when_full = true});
  service.events = &small;
  ASSERT_EQ(configure(one_rule("<Event>s3:ObjectCreated:*</Event>")).status, 200);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(as(alice_, "PUT", "/bucket/k" + std::to_string(i), "x").status, 200);
  EXPECT_EQ(small.waiting("hook").at(0).events, 2u);
}

TEST_F(EventsTest, WithoutQueuesThereAreNoNotifications) {
  service.events = nullptr;
  EXPECT_EQ(configure(one_rule("<Event>s3:ObjectCreated:*</Event>")).status, 501);
  EXPECT_EQ(configure("<NotificationConfiguration/>").status, 200);
}

TEST(EventQueues, WhatIsAdmittedHasItsRoomUntilItIsCountedOrGivenUp) {
  EventQueues queues({{"hook", "webhook"}}, {.events_max = 8, .bytes_max = 1 * MiB});
  std::vector<EventQueues::RoomPtr> rooms;
  const auto admit = [&](const std::string& owner) {
    auto room = queues.admit("hook", owner, 1);
    if (room) rooms.push_back(std::move(*room));
    return room.has_value();
  };
  while (admit("one")) {
  }
  EXPECT_EQ(rooms.size(), 4u) << "half of the queue";
  EXPECT_TRUE(admit("two")) << "some is always left";
  rooms.pop_back();
  rooms.pop_back();
  EXPECT_TRUE(admit("one")) << "one was given up";
  EXPECT_FALSE(admit("one"));
  std::vector<store::EventRow> events;
  for (auto& room : rooms) events.push_back({"hook", "x", std::move(room)});
  queues.added(1, "one", events);
  EXPECT_FALSE(admit("one")) << "what is counted is no longer reserved, and not free either";
  events.clear();
  EXPECT_FALSE(admit("one"));
  EXPECT_EQ(queues.states()[0].events, 4u);
  queues.removed("hook", 1, 1, 1);
  EXPECT_TRUE(admit("one"));
}

// Changes whose events the queue admits while they are decided, as requests do.
class Admitted final : public store::Announcement {
 public:
  explicit Admitted(EventQueues& queues) : queues_(queues) {}
  Result<std::vector<store::EventRow>> events(const store::Happened&) const override {
    store::EventRow event{"hook", "x"};
    VB_ASSIGN(event.room, queues_.admit("hook", "owner", 1));
    std::vector<store::EventRow> all;
    all.push_back(std::move(event));
    return all;
  }
  void committed(uint64_t bucket, const std::vector<store::EventRow>& events) const override {
    queues_.added(bucket, "owner", events);
  }

 private:
  EventQueues& queues_;
};

// Each change of a commit group was decided by what the queue had before all of them.
TEST(EventQueues, ChangesThatAreCommittedTogetherDoNotExceedTheLimit) {
  EventQueues queues({{"hook", "webhook"}}, {.events_max = 16, .bytes_max = 1 * MiB});
  store::local::TestStore t;
  t.open();
  t.make_bucket("b");
  const auto admitted = std::make_shared<const Admitted>(queues);
  const auto put = [&](std::string key) -> Task<Result<void>> {
    VB_CO_ASSIGN(const auto writer, co_await t.engine().create("b", key, 0));
    store::CommitConditions conditions;
    conditions.announcement = admitted;
    store::ObjectInfo info;
    VB_CO_TRY(co_await writer->commit(std::move(info), std::move(conditions)));
    co_return Result<void>();
  };
  std::vector<std::future<Result<void>>> puts;
  for (int i = 0; i < 100; ++i) {
    auto one = put("k" + std::to_string(i));
    puts.push_back(boost::asio::co_spawn(t.io(), std::move(one), boost::asio::use_future));
  }
  t.io().restart();
  t.io().run();
  uint64_t stored = 0;
  for (auto& one : puts) {
    const auto done = one.get();
    stored += done.has_value();
    if (!done) EXPECT_EQ(done.error(), Errc::slow_down);
  }
  EXPECT_EQ(stored, 8u) << "half of the queue";
  EXPECT_EQ(queues.states()[0].events, stored);
  EXPECT_EQ(t.run(t.engine().event_backlog("hook"))->at(0).events, stored);
}

// One whose event did not fit refused all others of the batch, and what it had decided of them was counted.
TEST_F(EventsTest, OfABatchOnlyThoseAreRefusedWhoseEventsDoNotFit) {
  EventQueues small({{"hook", "webhook"}}, {.events_max = 8, .bytes_max = 1 * MiB});
  ASSERT_TRUE(run(store.set_document("bucket", store::bounding_document, "a bound")));
  const auto grounds = std::make_shared<const store::RemovalGrounds>(
      store::RemovalGrounds{.bucket_created_us = run(store.bucket("bucket"))->created_us,
                            .rules = *run(store.document("bucket", store::bounding_document)),
                            .of = store::RemovalGrounds::Of::evicted});
  const auto admitted = std::make_shared<const Admitted>(small);
  std::vector<store::Eviction> chosen;
  for (int i = 0; i < 8; ++i) {
    const std::string key = "k" + std::to_string(i);
    ASSERT_EQ(as(alice_, "PUT", "/bucket/" + key, "x").status, 200);
    const auto there = run(store.stat("bucket", key, ""));
    ASSERT_TRUE(there);
    // Every second one has an event.
    chosen.push_back({.key = key, .modified_us = there->modified_us});
    if (i % 2 == 0 || i > 5) chosen.back().announcement = admitted;
  }
  metrics::Counter& refused = metrics::counter("verbena_events_refused_total", "", {{"target", "hook"}});
  const uint64_t before = refused.value();
  const auto outcomes = run(store.evict("bucket", grounds, chosen));
  EXPECT_EQ(refused.value() - before, 1u) << "it is asked for once";
  std::string all;
  for (const auto& one : outcomes) all += one ? "+" : one.error() == Errc::slow_down ? "-" : "?";
  EXPECT_EQ(all, "+++++++-");
  EXPECT_EQ(small.states()[0].events, 4u);
  EXPECT_EQ(as(alice_, "GET", "/bucket/k7").status, 200);
  EXPECT_EQ(as(alice_, "GET", "/bucket/k6").status, 404);
}

TEST(EventQueues, TargetsThatAreGoneHaveOneNameInMetrics) {
  metrics::Gauge& waiting = metrics::gauge("verbena_events_queued", "", {{"target", "(gone)"}});
  const int64_t before = waiting.value();
  {
    EventQueues queues({{"hook", "webhook"}}, {.events_max = 4});
    queues.load("first", {{.bucket = 1, .events = 2, .bytes = 20}});
    queues.load("second", {{.bucket = 1, .events = 3, .bytes = 30}});
    queues.load("empty", {});
    EXPECT_EQ(waiting.value(), before + 5);
    ASSERT_EQ(queues.states().size(), 3u) << "one is configured, two have events";
    EXPECT_EQ(queues.states()[1].target.name, "first");
    EXPECT_TRUE(queues.states()[1].target.type.empty());
    EXPECT_FALSE(queues.has_target("first"));
    EXPECT_TRUE(queues.admit("first", "owner", 1));
    EXPECT_FALSE(queues.admit("second", "owner", 2 * GiB));
    queues.removed("first", 1, 2, 20);
    queues.let_go("first", 2);
    EXPECT_EQ(waiting.value(), before + 3);
    EXPECT_EQ(queues.states().size(), 2u);
    const std::string all = metrics::exposition();
    EXPECT_EQ(all.find("target=\"first\""), std::string::npos);
    EXPECT_EQ(all.find("verbena_events_target_up{target=\"(gone)\"}"), std::string::npos) << "no delivery is tried";
  }
  EXPECT_EQ(waiting.value(), before);
}

}  // namespace
}  // namespace verbena::s3::test
