#include "s3/events/announce.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "auth/auth.h"
#include "base/date.h"
#include "s3/access/authorize.h"
#include "s3/errors.h"
#include "s3/events/event_queues.h"

namespace verbena::s3 {
namespace {

// Keeps the order of fields in AWS's records.
using EventJson = nlohmann::ordered_json;

constexpr std::string_view no_time = R"("eventTime":"")", record_end = "}}}]}";

std::string text_of_message(const EventJson& message) {
  return message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Form encoding, which AWS uses for keys in events.
std::string encoded_key(std::string_view key) {
  std::string text = auth::uri_encode(key, /*keep_slash=*/true);
  for (size_t at = 0; (at = text.find("%20", at)) != std::string::npos;) text.replace(at, 3, "+");
  return text;
}

// The request's fields in a record. Copied: the change may outlive the request.
struct Asker {
  std::string principal, address, request_id;
};

Asker asker_of(const Call& caller, EventCause cause) {
  if (cause == EventCause::expire) return {"s3.amazonaws.com", "s3.amazonaws.com", caller.request_id};
  const auth::Principal* who = principal_of(caller);
  return {who == nullptr ? "Anonymous" : "AWS:" + who->user_id, caller.peer_address, caller.request_id};
}

// AWS's versions: 2.3 for lifecycle, tags and access lists, else 2.1.
std::string_view record_version(EventKind kind) {
  switch (kind) {
    case EventKind::put_tags:
    case EventKind::delete_tags:
    case EventKind::put_acl:
    case EventKind::expire:
    case EventKind::expire_with_marker:
      return "2.3";
    default:
      return "2.1";
  }
}

bool tells_content(EventKind kind) {
  return kind == EventKind::put || kind == EventKind::post || kind == EventKind::copy ||
         kind == EventKind::complete_upload;
}

class ObjectAnnouncement final : public store::Announcement {
 public:
  ObjectAnnouncement(const Service& service, const BucketAccess& access, const Call& caller, EventCause cause,
                     std::string_view key)
      : queues_(*service.events),
        rules_(access.notifications),
        region_(service.region),
        bucket_(access.name),
        owner_(access.owner),
        asker_(asker_of(caller, cause)),
        cause_(cause),
        key_(key) {
    const EventKind removed = kind_of(cause, true);
    prepare(kind_of(cause, false));
    if (removed != kind_of(cause, false)) prepare(removed);
  }

  Result<std::vector<store::EventRow>> events(const store::Happened& happened) const override {
    const EventKind kind = kind_of(cause_, happened.info.delete_marker);
    std::vector<store::EventRow> events;
    for (const Prepared& rule : prepared_) {
      if (rule.kind != kind) continue;
      std::string text = record(rule, happened);
      VB_ASSIGN(auto room, queues_.admit(rule.target, owner_, text.size()));
      if (room != nullptr) events.push_back({rule.target, std::move(text), std::move(room)});
    }
    return events;
  }
  void committed(uint64_t bucket, const std::vector<store::EventRow>& events) const override {
    queues_.added(bucket, owner_, events);
  }

 private:
  // A record without the fields that only the change knows: events() runs while no other change can be made.
  struct Prepared {
    EventKind kind;
    std::string target, until_time, until_object;
  };

  void prepare(EventKind kind) {
    for (const NotificationRule& rule : *rules_) {
      if (!rule.wants(kind, key_)) continue;
      const std::string text = template_of(rule, kind);
      const size_t time = text.find(no_time) + no_time.size() - 1;
      prepared_.push_back({.kind = kind,
                           .target = rule.target,
                           .until_time = text.substr(0, time),
                           .until_object = text.substr(time, text.size() - record_end.size() - time)});
    }
  }

  std::string record(const Prepared& rule, const store::Happened& happened) const {
    const store::ObjectInfo& info = happened.info;
    std::string text = rule.until_time + format_iso8601(happened.time_us) + rule.until_object;
    const auto into = std::back_inserter(text);
    if (tells_content(rule.kind)) fmt::format_to(into, R"(,"size":{})", info.size);
    if (!info.etag.empty()) fmt::format_to(into, R"(,"eTag":{})", text_of_message(info.etag));
    if (!info.version_id.empty()) fmt::format_to(into, R"(,"versionId":{})", text_of_message(info.version_id));
    fmt::format_to(into, R"(,"sequencer":"{:016X}")", happened.sequence);
    return text.append(record_end);
  }

  // Without time; of the object only the key.
  std::string template_of(const NotificationRule& rule, EventKind kind) const {
    EventJson record = {
        {"eventVersion", record_version(kind)},
        {"eventSource", "aws:s3"},
        {"awsRegion", region_},
        {"eventTime", ""},
        {"eventName", event_name(kind)},
        {"userIdentity", {{"principalId", asker_.principal}}},
        {"requestParameters", {{"sourceIPAddress", asker_.address}}},
        {"responseElements", {{"x-amz-request-id", asker_.request_id}, {"x-amz-id-2", host_id}}},
        {"s3",
         {{"s3SchemaVersion", "1.0"},
          {"configurationId", rule.id},
          {"bucket",
           {{"name", bucket_}, {"ownerIdentity", {{"principalId", owner_}}}, {"arn", "arn:aws:s3:::" + bucket_}}},
          {"object", {{"key", encoded_key(key_)}}}}}};
    EventJson message;
    message["Records"] = EventJson::array({std::move(record)});
    return text_of_message(message);
  }

  EventQueues& queues_;
  const std::shared_ptr<const NotificationRules> rules_;
  const std::string region_, bucket_, owner_;
  const Asker asker_;
  const EventCause cause_;
  const std::string key_;
  std::vector<Prepared> prepared_;  // for each rule that may match
};

class TestAnnouncement final : public store::Announcement {
 public:
  TestAnnouncement(EventQueues& queues, std::set<std::string> targets, const store::BucketInfo& bucket,
                   std::string request_id)
      : queues_(queues),
        targets_(std::move(targets)),
        bucket_(bucket.name),
        owner_(bucket.owner),
        request_id_(std::move(request_id)) {}

  Result<std::vector<store::EventRow>> events(const store::Happened& happened) const override {
    const EventJson message = {
        {"Service", "Amazon S3"}, {"Event", "s3:TestEvent"},  {"Time", format_iso8601(happened.time_us)},
        {"Bucket", bucket_},      {"RequestId", request_id_}, {"HostId", host_id}};
    std::vector<store::EventRow> events;
    for (const std::string& target : targets_) {
      store::EventRow event{target, text_of_message(message)};
      VB_ASSIGN(event.room, queues_.admit(target, owner_, event.record.size()));
      if (event.room != nullptr) events.push_back(std::move(event));
    }
    return events;
  }
  void committed(uint64_t bucket, const std::vector<store::EventRow>& events) const override {
    queues_.added(bucket, owner_, events);
  }

 private:
  EventQueues& queues_;
  const std::set<std::string> targets_;
  const std::string bucket_, owner_, request_id_;
};

}  // namespace

store::AnnouncementPtr announce(const Service& service, const BucketAccess& access, const Call& caller,
                                EventCause cause, std::string_view key) {
  if (access.notifications == nullptr || service.events == nullptr) return nullptr;
  const auto wants = [&](const NotificationRule& rule) {
    return rule.wants(kind_of(cause, false), key) || rule.wants(kind_of(cause, true), key);
  };
  if (std::ranges::none_of(*access.notifications, wants)) return nullptr;
  return std::make_shared<const ObjectAnnouncement>(service, access, caller, cause, key);
}

Task<Result<store::AnnouncementPtr>> announce_now(Service& service, const std::string& bucket, const Call& caller,
                                                  EventCause cause, std::string_view key) {
  if (service.events == nullptr) co_return nullptr;
  VB_CO_ASSIGN(const BucketAccessPtr access, co_await bucket_access(service, bucket));
  co_return announce(service, *access, caller, cause, key);
}

store::AnnouncementPtr announce_test(const Service& service, const store::BucketInfo& bucket, const Call& caller,
                                     const NotificationRules& rules) {
  std::set<std::string> targets;
  for (const NotificationRule& rule : rules) targets.insert(rule.target);
  return std::make_shared<const TestAnnouncement>(*service.events, std::move(targets), bucket, caller.request_id);
}

}  // namespace verbena::s3
