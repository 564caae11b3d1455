// IAM and STS as AWS's query APIs, and the admin API: one request in, one answer out.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "auth/identity_store.h"
#include "base/blocking.h"
#include "base/clock.h"
#include "iam/operate.h"
#include "s3/request.h"
#include "store/store.h"

namespace verbena::s3 {
class EventQueues;
}

namespace verbena::iam {

// Largest body of any of these requests.
inline constexpr size_t body_bytes_max = 64 * 1024;

enum class Api : uint8_t {
  none,   // a request of S3
  query,  // IAM and STS: a form posted to "/"
  admin,  // POST /-/admin/CALL, a JSON object
};
Api api_of(std::string_view method, std::string_view path, std::string_view content_type);

class Service {
 public:
  // All outlive the service. `buckets` tells whether an account still owns one. `quota_changed`: what is kept of a
  // bucket's quota, or of its owner's, is out of date.
  Service(
      auth::IdentityStore& identities, store::Store& buckets, BlockingPool& pool, const WallClock& clock,
      std::function<void()> quota_changed = [] {})
      : identities_(identities),
        buckets_(buckets),
        pool_(pool),
        clock_(clock),
        quota_changed_(std::move(quota_changed)) {}

  // Before the first request, where there are any.
  void show_events(const s3::EventQueues& queues) { events_ = &queues; }
  // Answers what is about the running server. Before the first request; outlives the service.
  void set_operator(OperatorCalls* calls) { operator_ = calls; }

  // A request whose signature was verified: `key` signed it. Never fails: every error becomes an answer. All references
  // outlive the task.
  Task<void> serve(Api api, const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                   s3::Response& response);
  // The answer to one that was not let in.
  static void refuse(Api api, const Error& error, std::string_view request_id, s3::Response& response);

 private:
  Task<void> serve_query(const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                         s3::Response& response);
  Task<void> serve_admin(const s3::Request& request, const auth::AccessKey& key, const std::string& body,
                         s3::Response& response);
  auth::IdentityStore& identities_;
  store::Store& buckets_;
  BlockingPool& pool_;
  const WallClock& clock_;
  const std::function<void()> quota_changed_;
  const s3::EventQueues* events_ = nullptr;
  OperatorCalls* operator_ = nullptr;
};

}  // namespace verbena::iam
