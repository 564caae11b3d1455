#include "auth/auth_failures.h"

#include <gtest/gtest.h>

#include "auth/test_clock.h"

namespace verbena::auth {
namespace {

class AuthFailuresTest : public testing::Test {
 protected:
  // A request that claims `access_key`, in its header or in its query.
  struct Claiming {
    explicit Claiming(std::string access_key, bool presigned = false) {
      const std::string credential = std::move(access_key) + "/20130524/us-east-1/s3/aws4_request";
      const std::string signature(64, 'a');
      if (presigned) {
        query = "X-Amz-Algorithm=AWS4-HMAC-SHA256&X-Amz-Credential=" + uri_encode(credential, false) +
                "&X-Amz-Date=20130524T000000Z&X-Amz-Expires=60&X-Amz-SignedHeaders=host&X-Amz-Signature=" + signature;
      } else {
        authorization =
            "AWS4-HMAC-SHA256 Credential=" + credential + ",SignedHeaders=host;x-amz-date,Signature=" + signature;
        headers = {{"host", "server"}, {"x-amz-date", "20130524T000000Z"}, {"authorization", authorization}};
      }
    }
    RequestView view() const { return {"GET", "/bucket", query, headers}; }
    std::string query, authorization;
    std::vector<HeaderView> headers{{"host", "server"}};
  };

  Errc ask(const std::string& peer, const Claiming& request) {
    const auto checked = failures_.check(peer, request.view());
    return checked ? Errc::ok : checked.error().code;
  }
  void send_wrong(const std::string& peer, const Claiming& request, int times) {
    for (int i = 0; i < times; ++i) failures_.note(peer, request.view(), Error{Errc::signature_does_not_match, 0, ""});
  }

  FixedClock clock_{example_day};
  AuthFailures failures_{clock_, {.tries_max = 4, .forgiven_s = 10, .entries_max = 8}};
  const Claiming alice_{"AKALICE"}, bob_{"AKBOB"};
};

TEST_F(AuthFailuresTest, AClientThatGuessesIsHeldUpForThatKeyAlone) {
  send_wrong("192.0.2.1", alice_, 3);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::ok);
  send_wrong("192.0.2.1", alice_, 1);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::slow_down);
  EXPECT_EQ(ask("192.0.2.1", Claiming("AKALICE", true)), Errc::slow_down);
  EXPECT_EQ(ask("192.0.2.1", bob_), Errc::ok);
  EXPECT_EQ(ask("192.0.2.2", alice_), Errc::ok);
}

TEST_F(AuthFailuresTest, AKeyThatIsSpelledInAnotherWayIsTheSameKey) {
  send_wrong("192.0.2.1", alice_, 4);
  Claiming other("AKALICE", true);
  const size_t at = other.query.find("AKALICE");
  other.query.replace(at, 1, "%41");
  EXPECT_EQ(ask("192.0.2.1", other), Errc::slow_down);
}

TEST_F(AuthFailuresTest, TriesAreForgivenOneByOne) {
  send_wrong("192.0.2.1", alice_, 100);
  clock_.set(example_day + 9);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::slow_down);
  clock_.set(example_day + 10);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::ok);
  send_wrong("192.0.2.1", alice_, 1);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::slow_down);
  clock_.set(example_day + 60);
  send_wrong("192.0.2.1", alice_, 3);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::ok);
}

TEST_F(AuthFailuresTest, OnlyWrongSignaturesCountAndNobodyOnLoopback) {
  for (int i = 0; i < 100; ++i) failures_.note("192.0.2.1", alice_.view(), Error{Errc::invalid_access_key_id, 0, ""});
  send_wrong("127.0.0.1", alice_, 100);
  send_wrong("192.0.2.1", Claiming(""), 100);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::ok);
  EXPECT_EQ(ask("127.0.0.1", alice_), Errc::ok);
}

TEST_F(AuthFailuresTest, FormsOfAClientCountTogether) {
  for (int i = 0; i < 4; ++i) failures_.note_form("192.0.2.1");
  EXPECT_FALSE(failures_.check_form("192.0.2.1"));
  EXPECT_TRUE(failures_.check_form("192.0.2.2"));
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::ok);
}

TEST_F(AuthFailuresTest, ManyClientsFillNoMemoryAndDoNotWashTheWorstOut) {
  send_wrong("192.0.2.1", alice_, 4);
  for (int i = 0; i < 100; ++i) send_wrong("198.51.100." + std::to_string(i), alice_, 1);
  EXPECT_EQ(ask("192.0.2.1", alice_), Errc::slow_down);
}

TEST_F(AuthFailuresTest, NoLimitIsNone) {
  AuthFailures open(clock_, {.tries_max = 0});
  for (int i = 0; i < 1000; ++i) {
    open.note("192.0.2.1", alice_.view(), Error{Errc::signature_does_not_match, 0, ""});
    open.note_form("192.0.2.1");
  }
  EXPECT_TRUE(open.check("192.0.2.1", alice_.view()));
  EXPECT_TRUE(open.check_form("192.0.2.1"));
}

}  // namespace
}  // namespace verbena::auth
