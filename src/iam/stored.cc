#include "iam/stored.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "iam/admin.h"
#include "s3/access/quota.h"

namespace verbena::iam {
namespace {

using Json = nlohmann::json;

constexpr size_t buckets_told_max = 1000;

std::string member_text(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json describe_usage(const store::Usage& usage) {
  return {{"objects", usage.objects},
          {"bytes", usage.bytes},
          {"versions", usage.versions},
          {"version_bytes", usage.version_bytes},
          {"delete_markers", usage.delete_markers},
          {"uploads", usage.uploads},
          {"upload_bytes", usage.upload_bytes}};
}

struct StoredCall {
  auth::IdentityStore& identities;
  store::Store& buckets;
  const QuotaSet& quota_set;
  const Json in;
  std::string message{};
};

Task<Result<Json>> set_bucket_quota(StoredCall& call, std::string bucket) {
  const auto given = call.in.find("quota");
  const auto quota = auth::parse_quota(given == call.in.end() ? "" : given->dump());
  if (!quota) {
    call.message = quota.error().context;
    co_return fail(Errc::validation_error, "admin");
  }
  if ((quota->bytes || quota->objects) && !call.buckets.keeps_usage()) {
    co_return fail(Errc::not_implemented, "This store does not count what its buckets hold: only rates can be set.");
  }
  const auto set = co_await call.buckets.set_document(bucket, s3::quota_document, auth::quota_text(*quota));
  call.quota_set(bucket, set);
  VB_CO_TRY(set);
  co_return Json{{"bucket", bucket}, {"quota", Json::parse(auth::quota_text(*quota))}};
}

Task<Result<Json>> get_bucket_quota(StoredCall& call, std::string bucket) {
  const auto document = co_await call.buckets.document(bucket, s3::quota_document);
  Json quota = Json::object();
  if (!document && document.error() != Errc::not_found) co_return std::unexpected(document.error());
  if (document) {
    const auto parsed = auth::parse_quota(**document);
    if (!parsed) co_return fail(Errc::corrupt_object, "admin: quota of a bucket");
    quota = Json::parse(auth::quota_text(*parsed));
  }
  co_return Json{{"bucket", bucket}, {"quota", std::move(quota)}};
}

Task<Result<Json>> remove_bucket_quota(StoredCall& call, std::string bucket) {
  const auto removed = co_await call.buckets.remove_document(bucket, s3::quota_document);
  call.quota_set(bucket, removed);
  VB_CO_TRY(removed);
  co_return Json::object();
}

Task<Result<Json>> usage_of_bucket(StoredCall& call, std::string bucket) {
  VB_CO_ASSIGN(const store::BucketInfo info, co_await call.buckets.bucket(bucket));
  VB_CO_ASSIGN(const store::Usage usage, co_await call.buckets.bucket_usage(bucket));
  Json out = describe_usage(usage);
  out["bucket"] = bucket;
  out["owner"] = info.owner;
  co_return out;
}

Task<Result<Json>> usage_of_account(StoredCall& call, std::string name) {
  const auto account = call.identities.account_named(name);
  if (account == nullptr) {
    call.message = "There is no account " + name + ".";
    co_return fail(Errc::no_such_entity, "admin");
  }
  store::Usage sum;
  std::vector<std::pair<std::string, store::Usage>> each;
  VB_CO_ASSIGN(const auto buckets, co_await call.buckets.buckets());
  for (const store::BucketInfo& bucket : buckets) {
    if (bucket.owner != account->account->canonical_id) continue;
    const auto usage = co_await call.buckets.bucket_usage(bucket.name);
    if (!usage && usage.error() == Errc::no_such_bucket) continue;  // removed meanwhile
    VB_CO_TRY(usage);
    sum += *usage;
    each.emplace_back(bucket.name, *usage);
  }
  std::ranges::stable_sort(each, std::greater(), [](const auto& one) { return one.second.all_bytes(); });
  Json out = describe_usage(sum);
  out["name"] = name;
  out["bucket_count"] = each.size();
  if (each.size() > buckets_told_max) each.resize(buckets_told_max);
  Json list = Json::array();
  for (const auto& [bucket, usage] : each) {
    Json one = describe_usage(usage);
    one["bucket"] = bucket;
    list.push_back(std::move(one));
  }
  out["buckets"] = std::move(list);
  co_return out;
}

Task<Result<Json>> serve_stored(StoredCall& call, std::string_view name) {
  std::string bucket = member_text(call.in, "bucket");
  if (name == "usage" && bucket.empty()) co_return co_await usage_of_account(call, member_text(call.in, "name"));
  if (name == "usage") co_return co_await usage_of_bucket(call, std::move(bucket));
  if (name == "quota-set") co_return co_await set_bucket_quota(call, std::move(bucket));
  if (name == "quota-get") co_return co_await get_bucket_quota(call, std::move(bucket));
  co_return co_await remove_bucket_quota(call, std::move(bucket));
}

}  // namespace

bool is_about_stored(std::string_view call, std::string_view body) {
  if (call == "usage") return true;
  if (call != "quota-set" && call != "quota-get" && call != "quota-rm") return false;
  const auto in = read_admin_request(body);
  return in && !member_text(*in, "bucket").empty();
}

bool sets_sizes(std::string_view call, std::string_view body) {
  if (call != "quota-set") return false;
  const auto in = read_admin_request(body);
  if (!in) return false;
  const auto quota = in->find("quota");
  return quota != in->end() && quota->is_object() && (quota->contains("bytes") || quota->contains("objects"));
}

Task<void> answer_stored(auth::IdentityStore& identities, store::Store& buckets, const QuotaSet& quota_set,
                         std::string_view call, std::string_view body, s3::Response& response) {
  auto in = read_admin_request(body);
  if (!in) {
    write_admin_error(in.error(), {}, response);
    co_return;
  }
  StoredCall made{identities, buckets, quota_set, std::move(*in)};
  const auto out = co_await serve_stored(made, call);
  write_admin_outcome(out, made.message, response);
}

}  // namespace verbena::iam
