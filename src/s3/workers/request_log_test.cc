#include "s3/workers/request_log.h"
#include "s3/access/access.h"

#include <boost/asio/detached.hpp>

#include <future>
#include <map>

#include "auth/auth.h"
#include "base/metrics.h"
#include "s3_http/test_rig.h"

namespace verbena::s3::test {
namespace {

std::string enabled(const std::string& inside) {
  return "<BucketLoggingStatus><LoggingEnabled>" + inside + "</LoggingEnabled></BucketLoggingStatus>";
}
std::string grant_to_all(const std::string& permission) {
  return "<Grant><Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"Group\"><URI>"
         "http://acs.amazonaws.com/groups/global/AllUsers</URI></Grantee><Permission>" +
         permission + "</Permission></Grant>";
}
const std::string to_logs = "<TargetBucket>logs</TargetBucket><TargetPrefix>p/</TargetPrefix>";

class LoggingRules : public Rig {};

TEST_F(LoggingRules, SurviveTheirDocument) {
  const auto off = parse_logging(nullptr, "<BucketLoggingStatus/>");
  ASSERT_TRUE(off);
  EXPECT_FALSE(*off);
  const std::pair<std::string, LoggingRule::KeyFormat> formats[] = {
      {"", LoggingRule::KeyFormat::simple},
      {"<SimplePrefix/>", LoggingRule::KeyFormat::simple},
      {"<PartitionedPrefix><PartitionDateSource>EventTime</PartitionDateSource></PartitionedPrefix>",
       LoggingRule::KeyFormat::by_event_time},
      {"<PartitionedPrefix><PartitionDateSource>DeliveryTime</PartitionDateSource></PartitionedPrefix>",
       LoggingRule::KeyFormat::by_delivery_time}};
  for (const auto& [text, format] : formats) {
    const std::string element = text.empty() ? "" : "<TargetObjectKeyFormat>" + text + "</TargetObjectKeyFormat>";
    const auto rule = parse_logging(nullptr, enabled(to_logs + element));
    ASSERT_TRUE(rule && *rule) << text;
    const auto again = parse_logging(nullptr, logging_xml(service, **rule));
    ASSERT_TRUE(again && *again) << text;
    EXPECT_EQ((*again)->target_bucket, "logs");
    EXPECT_EQ((*again)->prefix, "p/");
    EXPECT_EQ((*again)->format, format);
  }
}

TEST_F(LoggingRules, WhatIsNoConfigurationIsRefused) {
  const std::string grants = "<TargetGrants><Grant><Permission>READ</Permission></Grant></TargetGrants>";
  const std::string of_list = "<TargetGrants>" + grant_to_all("READ_ACP") + "</TargetGrants>";
  const std::pair<std::string, Errc> cases[] = {
      {"<Other/>", Errc::malformed_xml},
      {enabled("<TargetBucket>logs</TargetBucket>"), Errc::malformed_xml},
      {enabled("<TargetBucket>No_Bucket</TargetBucket><TargetPrefix/>"), Errc::malformed_xml},
      {enabled(to_logs + "<Unknown/>"), Errc::malformed_xml},
      {enabled(to_logs + "<TargetObjectKeyFormat/>"), Errc::malformed_xml},
      {enabled(to_logs + "<TargetObjectKeyFormat><PartitionedPrefix><PartitionDateSource>x</PartitionDateSource>"
                         "</PartitionedPrefix></TargetObjectKeyFormat>"),
       Errc::malformed_xml},
      {enabled("<TargetBucket>logs</TargetBucket><TargetPrefix>" + std::string(513, 'x') + "</TargetPrefix>"),
       Errc::invalid_argument},
      {enabled(to_logs + grants), Errc::malformed_acl},
      {enabled(to_logs + of_list), Errc::malformed_xml},
      {enabled(to_logs + "<TargetGrants><x/></TargetGrants>"), Errc::malformed_xml},
  };
  for (const auto& [text, code] : cases) {
    const auto rule = parse_logging(nullptr, text);
    ASSERT_FALSE(rule) << text;
    EXPECT_EQ(rule.error(), code) << text;
  }
}

TEST_F(LoggingRules, KeysSayWhenAndWhose) {
  const int64_t now_s = 1'767'323'045;  // 2026-01-02T03:04:05Z
  const LogSource source{"acme", "here", "b", now_s - 86'400};
  LoggingRule rule{"logs", "p/", LoggingRule::KeyFormat::simple};
  EXPECT_EQ(log_object_key(rule, source, now_s, "U"), "p/2026-01-02-03-04-05-U");
  rule.format = LoggingRule::KeyFormat::by_delivery_time;
  EXPECT_EQ(log_object_key(rule, source, now_s, "U"), "p/acme/here/b/2026/01/02/2026-01-02-03-04-05-U");
  rule.format = LoggingRule::KeyFormat::by_event_time;
  EXPECT_EQ(log_object_key(rule, source, now_s, "U"), "p/acme/here/b/2026/01/01/2026-01-01-00-00-00-U");
}

TEST(LogRecord, IsOneLineOfTwentySixFields) {
  LogRecord record;
  EXPECT_EQ(format_log_record(record),
            "- - [01/Jan/1970:00:00:00 +0000] - - - - - \"-\" - - - - - - \"-\" \"-\" - - - - - - - - -\n");
  record.bucket = "b";
  record.host = "h h\n";
  record.key = "a b\n";
  record.user_agent = "x\"\r\n\\y";
  record.status = 200;
  record.bytes_sent = 5;
  record.object_size = 7;
  record.total_ms = 0;
  EXPECT_EQ(format_log_record(record),
            "- b [01/Jan/1970:00:00:00 +0000] - - - - a%20b%0A \"-\" 200 - 5 7 0 - \"-\" \"x%22%0D%0A%5Cy\" - - - - - "
            "h_h_ - - -\n");
}

TEST(LogRecord, WhatAClientSendsWithEachRequestIsCut) {
  LogRecord record;
  record.user_agent = record.referer = std::string(4090, '"');
  record.request = "GET /b/" + std::string(60'000, '\\') + " HTTP/1.1";
  record.host = record.version_id = std::string(60'000, 'h');
  EXPECT_LT(format_log_record(record).size(), 8'000u);
  EXPECT_NE(format_log_record(record).find("\"%22%22%22"), std::string::npos);
}

TEST(LogRecord, OperationsHaveAwssNames) {
  EXPECT_EQ(log_operation("GET", true, ""), "REST.GET.OBJECT");
  EXPECT_EQ(log_operation("GET", false, ""), "REST.GET.BUCKET");
  EXPECT_EQ(log_operation("GET", false, "list-type"), "REST.GET.BUCKET");
  EXPECT_EQ(log_operation("PUT", true, "uploadId"), "REST.PUT.PART");
  EXPECT_EQ(log_operation("POST", true, "uploadId"), "REST.POST.UPLOAD");
  EXPECT_EQ(log_operation("POST", true, "uploads"), "REST.POST.UPLOADS");
  EXPECT_EQ(log_operation("PUT", true, "tagging"), "REST.PUT.OBJECT_TAGGING");
  EXPECT_EQ(log_operation("PUT", true, "acl"), "REST.PUT.ACL");
  EXPECT_EQ(log_operation("POST", false, "delete"), "REST.POST.MULTI_OBJECT_DELETE");
}

TEST(LogRecord, NoSignatureComesIntoALine) {
  EXPECT_EQ(log_request_line("GET", "/b/k", ""), "GET /b/k HTTP/1.1");
  EXPECT_EQ(log_request_line("GET", "/b/k", "X-Amz-Signature=abc&x=1&Signature=d&x-amz-security-token=e"),
            "GET /b/k?X-Amz-Signature=-&x=1&Signature=-&x-amz-security-token=- HTTP/1.1");
  EXPECT_EQ(log_request_line("GET", "/b/k", "X-Amz-Signatur%65=abc&%zz=d"),
            "GET /b/k?X-Amz-Signatur%65=-&%zz=- HTTP/1.1");
  EXPECT_EQ(log_request_line("GET", "/b/k",
                             "x-amz-server-side-encryption-customer-key=a2V5&"
                             "x-amz-copy-source-server-side-encryption-customer-key=a2V5&y=2"),
            "GET /b/k?x-amz-server-side-encryption-customer-key=-&"
            "x-amz-copy-source-server-side-encryption-customer-key=-&y=2 HTTP/1.1");
  EXPECT_EQ(log_referer("https://h/b/k?x=1&X-Amz-Signature=abc"), "https://h/b/k?x=1&X-Amz-Signature=-");
  EXPECT_EQ(log_referer("https://h/page"), "https://h/page");
  EXPECT_EQ(log_referer(""), "");
}

class BucketLogs : public Rig {
 protected:
  void SetUp() override {
    service.request_log = &log;
    make_bucket();
    ASSERT_EQ(call("PUT", "/logs").status, 200);
  }
  Reply configure(const std::string& text) { return call("PUT", "/bucket?logging", {}, text); }
  // The objects in the target bucket, joined.
  std::string delivered() {
    boost::asio::io_context context;
    boost::asio::co_spawn(context, log.deliver(true), boost::asio::detached);
    context.run();
    std::string text;
    const Reply list = call("GET", "/logs");
    for (size_t at = list.body.find("<Key>"); at != std::string::npos; at = list.body.find("<Key>", at + 1)) {
      const size_t from = at + 5;
      text += call("GET", "/logs/" + list.body.substr(from, list.body.find("</Key>", from) - from)).body;
    }
    return text;
  }
  RequestLog log{service, {}};
};

// A quarter of an interval of whole seconds was no time at all.
TEST_F(BucketLogs, AnIntervalBelowFourSecondsDoesNotMakeItsThreadSpin) {
  RequestLog brisk(service, {.interval = std::chrono::seconds(3)});
  brisk.start();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  brisk.stop();
  EXPECT_LE(brisk.looks(), 2u);
}

// A tenant's many rules made a stop last until the operating system killed the server.
TEST_F(BucketLogs, AStopDropsWhatItHasNoTimeFor) {
  auto& dropped = metrics::counter("verbena_bucket_log_dropped_total", "", {{"cause", "stop"}});
  for (const auto& [stop_max, delivers] :
       {std::pair(std::chrono::seconds(10), true), {std::chrono::seconds(0), false}}) {
    RequestLog stopped(service, {.stop_max = stop_max});
    stopped.start();
    for (const char* prefix : {"a/", "b/", "c/"}) {
      LogEntry entry{stopped, LoggingRule{"logs", prefix, LoggingRule::KeyFormat::simple}};
      entry.record.bucket_owner = std::string(auth::root_canonical_id);
      stopped.add(entry);
      if (prefix[0] == 'c') stopped.add(entry);
    }
    const uint64_t before = dropped.value();
    const size_t objects = call("GET", "/logs").count("<Key>");
    testing::internal::CaptureStderr();
    stopped.stop();
    const std::string told = testing::internal::GetCapturedStderr();
    EXPECT_EQ(told.find("no time for 4 records: 3 log objects are not delivered") == std::string::npos, delivers)
        << told;
    EXPECT_EQ(dropped.value() - before, delivers ? 0u : 3u);
    EXPECT_EQ(call("GET", "/logs").count("<Key>") - objects, delivers ? 3u : 0u);
  }
}

// The delivery that was under way at a stop went on with its own list, and the records that another owner had queued
// since were dropped.
TEST_F(BucketLogs, AtAStopOwnersTakeTurnsWithADeliveryThatIsUnderWay) {
  ASSERT_TRUE(run(store.create_bucket({.name = "theirs", .owner = "other"})));
  RequestLog stopped(service, {.batch_bytes_max = 1});  // each record is due at once
  const auto add = [&](const std::string& owner, const std::string& target, const std::string& prefix) {
    LogEntry entry{stopped, LoggingRule{target, prefix, LoggingRule::KeyFormat::simple}};
    entry.record.bucket_owner = owner;
    stopped.add(entry);
  };
  const std::string root(auth::root_canonical_id);
  for (const char* prefix : {"a1", "a2", "a3", "a4"}) add(root, "logs", prefix);
  std::promise<void> begun, stopping;
  store.while_written = [&] {
    begun.set_value();
    stopping.get_future().wait();
  };
  stopped.start();
  begun.get_future().wait();
  for (const char* prefix : {"b1", "b2"}) add("other", "theirs", prefix);
  stopped.begin_stop();
  stopping.set_value();
  stopped.stop();
  std::map<int64_t, std::string> order;  // by the time of writing
  for (const std::string bucket : {"logs", "theirs"}) {
    const store::ListPage page = run(store.list(bucket, {})).value();
    for (const store::ListEntry& entry : page.entries) {
      order[store.object(bucket, entry.key).info.modified_us] = entry.key.substr(0, 2);
    }
  }
  std::string text;
  for (const auto& [time_us, prefix] : order) text += prefix + " ";
  EXPECT_EQ(text, "a1 a2 b1 a3 b2 a4 ");
}

TEST_F(BucketLogs, RequestsAreDeliveredAsAnObject) {
  EXPECT_EQ(call("GET", "/bucket?logging").count("LoggingEnabled"), 0u);
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  EXPECT_EQ(call("GET", "/bucket?logging").element("TargetPrefix"), "p/");
  put("k", "12345");
  call("GET", "/bucket/k");
  call("GET", "/bucket/none");
  call("GET", "/logs");  // has no log of its own
  const std::string text = delivered();
  EXPECT_NE(text.find(" REST.PUT.OBJECT k \"PUT /bucket/k HTTP/1.1\" 200 - "), std::string::npos) << text;
  EXPECT_NE(text.find(" REST.GET.OBJECT k \"GET /bucket/k HTTP/1.1\" 200 - 5 5 "), std::string::npos) << text;
  EXPECT_NE(text.find(" REST.GET.OBJECT none \"GET /bucket/none HTTP/1.1\" 404 NoSuchKey "), std::string::npos) << text;
  EXPECT_EQ(text.find(" logs ["), std::string::npos) << text;
  ASSERT_EQ(configure("<BucketLoggingStatus/>").status, 200);
  call("GET", "/bucket/k");
  EXPECT_EQ(call("GET", "/bucket?logging").count("LoggingEnabled"), 0u);
  const std::string all = delivered();
  EXPECT_EQ(all.find("REST.GET.OBJECT k"), all.rfind("REST.GET.OBJECT k"));
}

// The log of another server stayed off until that was started again.
TEST_F(BucketLogs, BeginWhereAnotherServerHasSetThem) {
  Service other{store, *arena, system_clock(), "us-east-1", &verifier};
  RequestLog others_log(other, {});
  other.request_log = &others_log;
  ASSERT_TRUE(run(bucket_access(other, "bucket")));
  EXPECT_FALSE(others_log.in_use());
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  other.access->changed("bucket");  // as the first server tells it
  ASSERT_TRUE(run(bucket_access(other, "bucket")));
  EXPECT_TRUE(others_log.in_use());
  EXPECT_NE(run(others_log.begin("bucket")), nullptr);
}

TEST_F(BucketLogs, EachKeyOfADeleteHasARecord) {
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  const std::string body = "<Delete><Object><Key>a</Key></Object><Object><Key>b</Key></Object></Delete>";
  ASSERT_EQ(call("POST", "/bucket?delete", {{"content-md5", base64_digest(Algorithm::md5, body)}}, body).status, 200);
  const std::string text = delivered();
  EXPECT_NE(text.find(" REST.POST.MULTI_OBJECT_DELETE - "), std::string::npos) << text;
  EXPECT_NE(text.find(" BATCH.DELETE.OBJECT a \"-\" 204 "), std::string::npos) << text;
  EXPECT_NE(text.find(" BATCH.DELETE.OBJECT b \"-\" 204 "), std::string::npos) << text;
}

// Its bytes went out by a request to another bucket, and its own log knew nothing of it.
TEST_F(BucketLogs, ACopyIsInTheLogOfItsSource) {
  ASSERT_EQ(call("PUT", "/other").status, 200);
  put("k y", "12345");
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  const Headers from{{"x-amz-copy-source", "/bucket/k%20y"}, {"user-agent", "copier"}};
  EXPECT_EQ(call("PUT", "/other/secret-target", from).status, 200);
  EXPECT_EQ(call("PUT", "/other/t", {{"x-amz-copy-source", "/bucket/none"}}).status, 404);
  const Reply begun = call("POST", "/other/t?uploads");
  EXPECT_EQ(call("PUT", "/other/t?partNumber=1&uploadId=" + begun.element("UploadId"), from).status, 200);
  EXPECT_EQ(call("PUT", "/bucket/same", from).status, 200);
  const std::string text = delivered();
  const std::string line = "\"GET /bucket/k%20y HTTP/1.1\" 200 - - 5 ";
  EXPECT_NE(text.find(" REST.COPY.OBJECT_GET k%20y " + line), std::string::npos) << text;
  EXPECT_NE(text.find(" REST.COPY.PART_GET k%20y " + line), std::string::npos) << text;
  EXPECT_NE(text.find(" REST.COPY.OBJECT_GET none \"GET /bucket/none HTTP/1.1\" 404 NoSuchKey "), std::string::npos)
      << text;
  EXPECT_NE(text.find(" REST.PUT.OBJECT same \"PUT /bucket/same HTTP/1.1\" 200 "), std::string::npos) << text;
  EXPECT_NE(text.find(" \"copier\" "), std::string::npos) << text;
  EXPECT_EQ(text.find("secret-target"), std::string::npos) << text;
}

// 900 names, each with a User-Agent and a Referer of 4 KiB: 7 MB of log for 36 KB of request.
TEST_F(BucketLogs, LongTextsOfARequestAreWrittenOnceAndNotForEachKey) {
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  std::string body = "<Delete>";
  for (int i = 0; i < 900; ++i) body += "<Object><Key>k" + std::to_string(i) + "</Key></Object>";
  body += "</Delete>";
  const std::string quotes(4090, '"');
  const Reply reply =
      call("POST", "/bucket?delete",
           {{"content-md5", base64_digest(Algorithm::md5, body)}, {"user-agent", quotes}, {"referer", quotes}}, body);
  ASSERT_EQ(reply.status, 200);
  const std::string text = delivered();
  EXPECT_NE(text.find(" BATCH.DELETE.OBJECT k899 \"-\" 204 "), std::string::npos);
  EXPECT_EQ(text.find("%22"), text.find("\"%22") + 1) << "in the request's own record";
  EXPECT_LT(text.size(), 900u * 400);
}

// A tenant with a quota of 1,000 bytes had 229 MB of log objects written.
TEST_F(BucketLogs, TakeRoomOfTheTargetsQuotaAndAreLetGoWhereThereIsNone) {
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  store.document("logs", "quota", auth::quota_text({.bytes = 1000}));
  service.access->all_changed();
  for (int i = 0; i < 100; ++i) call("GET", "/bucket/none");
  EXPECT_EQ(delivered(), "");
  EXPECT_EQ(run(store.bucket_usage("logs")).value().all_bytes(), 0u);
  call("GET", "/bucket/one");
  EXPECT_NE(delivered().find("/bucket/one"), std::string::npos) << "what fits is delivered";
  store.document("logs", "quota", auth::quota_text({.objects = 1}));
  service.access->all_changed();
  call("GET", "/bucket/two");
  EXPECT_EQ(delivered().find("/bucket/two"), std::string::npos);
}

TEST_F(BucketLogs, OneAddressDoesNotPushOutTheRecordsOfOthersThatUseTheBucket) {
  RequestLog::Options options;
  options.queued_bytes_max = 64 * KiB;
  RequestLog small(service, options);
  LogEntry entry{small, LoggingRule{"logs", "p/", LoggingRule::KeyFormat::simple}};
  entry.record.bucket_owner = std::string(auth::root_canonical_id);
  entry.record.peer = "192.0.2.1";
  for (int i = 0; i < 10'000; ++i) small.add(entry);
  entry.record.peer = "192.0.2.2";
  entry.record.key = "precious";
  small.add(entry);
  boost::asio::io_context context;
  boost::asio::co_spawn(context, small.deliver(true), boost::asio::detached);
  context.run();
  EXPECT_NE(delivered().find(" precious "), std::string::npos);
}

// The queue was shared by all: a caller that filled it displaced all others' records.
TEST_F(BucketLogs, WhoMakesManyRecordsLosesHisOwnAndNotAnothers) {
  RequestLog::Options options;
  options.queued_bytes_max = 64 * KiB;
  RequestLog small(service, options);
  const auto entry = [&](const std::string& owner, const std::string& target) {
    LogEntry made{small, LoggingRule{target, "p/", LoggingRule::KeyFormat::simple}};
    made.record.bucket_owner = owner;
    return made;
  };
  for (const char* owner : {"noisy", "loud"}) {
    const LogEntry many = entry(owner, "theirs");
    for (int i = 0; i < 10'000; ++i) small.add(many);
  }
  LogEntry one = entry(std::string(auth::root_canonical_id), "logs");
  one.record.key = "precious";
  small.add(one);
  boost::asio::io_context context;
  boost::asio::co_spawn(context, small.deliver(true), boost::asio::detached);
  context.run();
  EXPECT_NE(delivered().find(" precious "), std::string::npos);
}

TEST_F(BucketLogs, TheTargetMustBeTheOwners) {
  EXPECT_EQ(configure(enabled("<TargetBucket>nowhere</TargetBucket><TargetPrefix/>")).code,
            "InvalidTargetBucketForLogging");
  EXPECT_EQ(call("PUT", "/absent?logging", {}, enabled(to_logs)).code, "NoSuchBucket");
  // A target that went away later costs the records, not the requests.
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  put("k", "x");
  ASSERT_EQ(call("DELETE", "/logs").status, 204);
  EXPECT_EQ(delivered(), "");
  EXPECT_EQ(call("GET", "/bucket/k").body, "x");
}

TEST_F(BucketLogs, WhoNamesATargetMayWriteThere) {
  auth::Principal user = *auth::superuser();
  user.superuser = false;
  user.kind = auth::Principal::Kind::user;
  user.arn = "arn:aws:iam::000000000000:user/u";
  const std::string only_configures =
      R"({"Statement":{"Effect":"Allow","Action":"s3:PutBucketLogging","Resource":"*"}})";
  const std::string writes_too =
      R"({"Statement":{"Effect":"Allow","Action":"s3:PutObject","Resource":"arn:aws:s3:::logs/p/*"}})";
  TestCall c{.method = "PUT", .target = "/bucket?logging", .body = enabled(to_logs)};
  user.policies = {auth::parse_policy(only_configures, auth::PolicyKind::identity).value()};
  c.principal = std::make_shared<auth::Principal>(user);
  EXPECT_EQ(call(c).code, "AccessDenied");
  user.policies.push_back(auth::parse_policy(writes_too, auth::PolicyKind::identity).value());
  c.principal = std::make_shared<auth::Principal>(user);
  EXPECT_EQ(call(c).status, 200);
}

// A user without the right to set ACLs made public log objects.
TEST_F(BucketLogs, WhoGivesGrantsMaySetListsThere) {
  auth::Principal user = *auth::superuser();
  user.superuser = false;
  user.kind = auth::Principal::Kind::user;
  user.arn = "arn:aws:iam::000000000000:user/u";
  const auto may = [&](const char* actions) {
    const std::string policy =
        R"({"Statement":{"Effect":"Allow","Action":)" + std::string(actions) + R"(,"Resource":"*"}})";
    user.policies = {auth::parse_policy(policy, auth::PolicyKind::identity).value()};
    TestCall c{.method = "PUT",
               .target = "/bucket?logging",
               .body = enabled(to_logs + "<TargetGrants>" + grant_to_all("READ") + "</TargetGrants>")};
    c.principal = std::make_shared<auth::Principal>(user);
    return call(c);
  };
  EXPECT_EQ(may(R"(["s3:PutBucketLogging","s3:PutObject"])").code, "AccessDenied");
  EXPECT_EQ(may(R"(["s3:PutBucketLogging","s3:PutObject","s3:PutObjectAcl"])").status, 200);
}

// Public log objects were delivered into a bucket that blocks public lists.
TEST_F(BucketLogs, ABucketThatBlocksPublicListsGetsNoPublicLogObjects) {
  const std::string grants = "<TargetGrants>" + grant_to_all("READ") + "</TargetGrants>";
  const auto block = [&](const char* acls) {
    return call("PUT", "/logs?publicAccessBlock", {},
                "<PublicAccessBlockConfiguration><BlockPublicAcls>" + std::string(acls) +
                    "</BlockPublicAcls></PublicAccessBlockConfiguration>")
        .status;
  };
  ASSERT_EQ(block("true"), 200);
  EXPECT_EQ(configure(enabled(to_logs + grants)).code, "AccessDenied");
  ASSERT_EQ(block("false"), 200);
  ASSERT_EQ(configure(enabled(to_logs + grants)).status, 200);
  put("k", "12345");
  ASSERT_EQ(block("true"), 200);  // set between the record and its delivery
  EXPECT_EQ(delivered(), "");
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  put("k", "12345");
  EXPECT_NE(delivered(), "");
}

TEST_F(BucketLogs, TellWhetherAListWasNeeded) {
  ASSERT_EQ(configure(enabled(to_logs)).status, 200);
  put("k", "12345", {{"x-amz-acl", "public-read"}});
  call("GET", "/bucket/k");
  TestCall anonymous{.method = "HEAD", .target = "/bucket/k", .anonymous = true};
  ASSERT_EQ(call(anonymous).status, 200);
  const std::string text = delivered();
  const auto line = [&](const std::string& operation) {
    const size_t at = text.find(operation);
    return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
  };
  EXPECT_TRUE(line("REST.HEAD.OBJECT").ends_with(" - - Yes")) << text;
  EXPECT_TRUE(line("REST.GET.OBJECT").ends_with(" - - -")) << text;
}

TEST_F(BucketLogs, AreForWhomTheTargetGrantsName) {
  const std::string grants = "<TargetGrants>" + grant_to_all("READ") + "</TargetGrants>";
  ASSERT_EQ(configure(enabled(to_logs + grants)).status, 200);
  EXPECT_EQ(call("GET", "/bucket?logging").element("Permission"), "READ");
  put("k", "12345");
  ASSERT_NE(delivered(), "");
  const std::string key = call("GET", "/logs").element("Key");
  TestCall anonymous{.target = "/logs/" + key, .anonymous = true};
  EXPECT_EQ(call(anonymous).status, 200);
  EXPECT_EQ(call("GET", "/logs/" + key + "?acl").count("FULL_CONTROL"), 1u) << "the owner keeps its rights";
  const std::string enforced =
      "<OwnershipControls><Rule><ObjectOwnership>BucketOwnerEnforced</ObjectOwnership></Rule></OwnershipControls>";
  ASSERT_EQ(call("PUT", "/logs?ownershipControls", {}, enforced).status, 200);
  EXPECT_EQ(configure(enabled(to_logs + grants)).code, "AccessControlListNotSupported");
  EXPECT_EQ(call(anonymous).status, 403);
}

}  // namespace
}  // namespace verbena::s3::test
