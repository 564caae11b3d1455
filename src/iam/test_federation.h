// Support for tests of calls without keys: a role for unsigned callers, and concurrent calls.
#pragma once

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "iam/federated_call.h"
#include "iam/query.h"
#include "iam/service.h"
#include "store/memory/test_store.h"

namespace verbena::iam {

class StandingClock : public WallClock {
 public:
  int64_t now_us() const override { return now_s * 1'000'000; }
  int64_t now_s = 1'767'323'045;
};

// The root account's identities, and a caller without one.
class FederationTest : public testing::Test {
 protected:
  FederationTest() {
    auto opened = auth::IdentityStore::open("", *ring_, {"ROOT", "root secret", ""});
    EXPECT_TRUE(opened);
    store_ = std::move(*opened);
    caller_.request_id = "0123456789ABCDEF";
    caller_.peer_address = "192.0.2.1";
  }
  void change(const std::function<void(auth::AccountEntry&)>& edit) {
    const auto done = store_->change_account("000000000000", [&](auth::AccountEntry& entry) -> Result<void> {
      edit(entry);
      return {};
    });
    EXPECT_TRUE(done);
  }
  // Adds a role `people` with this trust policy's statement, replacing an existing one.
  void add_role(const std::string& statement) {
    change([&](auth::AccountEntry& entry) {
      auth::Role role;
      role.name = "people";
      role.id = "AROAPEOPLE";
      role.trust.text = "{\"Statement\":" + statement + "}";
      auto parsed = auth::parse_policy(role.trust.text, auth::PolicyKind::trust);
      EXPECT_TRUE(parsed);
      role.trust.policy = *parsed;
      entry.roles.insert_or_assign(role.name, role);
    });
  }

  StandingClock clock_;
  std::unique_ptr<auth::KeyRing> ring_ = auth::KeyRing::in_memory();
  std::unique_ptr<auth::IdentityStore> store_;
  s3::Call caller_;
  FederatedReply reply_;
};

// Concurrent calls of remote clients to a Service.
class FederatedCalls {
 protected:
  void call(Service& service, const std::string& peer, bool secure, std::string form) {
    boost::asio::co_spawn(loop_, serve(service, peer, secure, std::move(form)), boost::asio::detached);
    ++asked_;
  }
  void run_until(const std::function<bool()>& done) {
    const Deadline end = deadline_in(std::chrono::seconds(60));
    loop_.restart();
    const auto work = boost::asio::make_work_guard(loop_);
    while (!done() && SteadyClock::now() < end) loop_.run_one_for(std::chrono::milliseconds(100));
  }
  void run_until_all_are_answered() {
    run_until([this] { return answers_.size() == asked_; });
  }
  // How many calls of an address got this error's code; none: a session.
  size_t told(std::string_view peer, std::string_view code) const {
    return static_cast<size_t>(
        std::ranges::count_if(answers_, [&](const auto& one) { return one.first == peer && one.second == code; }));
  }

  std::vector<std::pair<std::string, std::string>> answers_;  // address, code
  size_t asked_ = 0;
  int chains_looked_at_ = 0;
  boost::asio::io_context loop_;
  std::unique_ptr<memory::Arena> arena_ = memory::Arena::create(64 * MiB).value();
  store::in_memory::TestStore buckets_{*arena_};

 private:
  Task<void> serve(Service& service, std::string peer, bool secure, std::string form) {
    const Service::CertificatesOf certificates = [this] {
      ++chains_looked_at_;
      return std::vector<std::string>();
    };
    call::Call of;
    s3::Request request{of};
    request.call.peer_address = peer;
    request.call.secure = secure;
    request.call.request_id = "0123456789ABCDEF";
    s3::Response response;
    (void)co_await service.serve_federated(request, form, certificates, response);
    answers_.emplace_back(peer, response.status == 200 ? "" : response.error_code);
  }
};

}  // namespace verbena::iam
