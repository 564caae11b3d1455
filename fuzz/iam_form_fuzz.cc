// A call of IAM or STS, from a user who may read everything and change nothing. For any input the answer is XML, and
// the accounts are unchanged.
#include <cstdlib>
#include <pugixml.hpp>

#include "iam/query.h"

namespace {

using namespace verbena;

constexpr const char* look = R"({"Version":"2012-10-17","Statement":[)"
                             R"({"Effect":"Allow","Action":["iam:Get*","iam:List*","sts:*"],"Resource":"*"}]})";

class FixedClock : public WallClock {
 public:
  int64_t now_us() const override { return 1'767'323'045'000'000; }
};

struct Fixture {
  std::unique_ptr<auth::KeyRing> keys = auth::KeyRing::in_memory();
  std::unique_ptr<auth::IdentityStore> store;
  auth::AccessKeyPtr key;
  Fixture() {
    // The path is never written.
    auto opened = auth::IdentityStore::open("/nonexistent/identities.json", *keys, {"ROOT", "secret key", ""});
    if (!opened) std::abort();
    store = std::move(*opened);
    auth::Principal user;
    user.kind = auth::Principal::Kind::user;
    user.account = auth::root_account();
    user.arn = "arn:aws:iam::000000000000:user/looker";
    user.name = "looker";
    user.policies.push_back(*auth::parse_policy(look, auth::PolicyKind::identity));
    key = std::make_shared<const auth::AccessKey>(
        auth::AccessKey{{"AK", "secret key", ""}, std::make_shared<const auth::Principal>(std::move(user)), 0});
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Fixture fixture;
  static const FixedClock clock;
  const uint64_t before = fixture.store->generation();
  s3::Call caller;
  caller.peer_address = "192.0.2.1";
  caller.request_id = "0123456789ABCDEF";
  s3::Response response;
  iam::answer_query(*fixture.store, {clock, "us-east-1"}, caller, *fixture.key,
                    iam::Parameters::parse({reinterpret_cast<const char*>(data), size}), response);
  if (fixture.store->generation() != before || response.body.empty()) std::abort();
  pugi::xml_document xml;
  if (!xml.load_buffer(response.body.data(), response.body.size())) std::abort();
  return 0;
}
