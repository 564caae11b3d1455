#include <arpa/inet.h>
#include <netinet/in.h>

#include <chrono>
#include <map>
#include <thread>

#include "native/door_state.h"
#include "native/test_door.h"
#include "native/wire/list_items.h"
#include "s3/access/access.h"

namespace verbena::native {
namespace {

class EndpointTest : public DoorTest {
 protected:
  EndpointTest() : DoorTest({.credits = 4, .reply_deadline = std::chrono::milliseconds(20)}) {}
  static wire::Get get_of(std::string_view key) {
    wire::Get get;
    get.bucket = "bucket";
    get.key = key;
    get.inline_max = 4096;
    return get;
  }
};

TEST_F(EndpointTest, ASmallObjectIsPutAndReadInline) {
  FakePeer peer = hello();
  wire::Put put;
  put.bucket = "bucket";
  put.key = "a";
  put.size = 5;
  put.compute = Algorithm::crc64nvme;
  put.headers.add({"content-type", "text/plain"});
  put.headers.add({"x-amz-meta-colour", "blue"});
  deliver(peer, peer.seal(wire::Type::put, 2, put, 0, "hello"));
  auto body = reply_body(peer);
  const auto stored = wire::decode_object_reply(body);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->length, 5u);
  EXPECT_NE(stored->etag.find('-'), std::string_view::npos);

  deliver(peer, peer.seal(wire::Type::get, 3, get_of("a"), wire::flag_full_headers));
  uint64_t request = 0;
  body = reply_body(peer, &request);
  const auto got = wire::decode_object_reply(body);
  ASSERT_TRUE(got);
  EXPECT_EQ(request, 3u);
  EXPECT_EQ(as_text(got->inline_bytes), "hello");
  EXPECT_EQ(got->checksums.count, 1u);
  ASSERT_EQ(got->headers.count, 2u);
  EXPECT_EQ(got->headers[1].value, "blue");
  EXPECT_EQ(door_->in_flight(), 0u);
}

TEST_F(EndpointTest, AnObjectOfTheStandardClassHasNone) {
  FakePeer peer = hello();
  store_.make_bucket("dir--local1-az1--x-s3");
  uint64_t request = 1;
  const auto put_as = [&](std::string_view bucket, std::string_view storage_class) {
    wire::Put put;
    put.bucket = bucket;
    put.key = "a";
    put.size = 5;
    put.headers.add({"x-amz-storage-class", storage_class});
    deliver(peer, peer.seal(wire::Type::put, ++request, put, 0, "hello"));
    return reply_code(peer);
  };
  const auto classes = [&](std::string_view bucket) {
    wire::Get get = get_of("a");
    get.bucket = bucket;
    deliver(peer, peer.seal(wire::Type::get, ++request, get, wire::flag_full_headers));
    const auto body = reply_body(peer);
    const auto got = wire::decode_object_reply(body);
    EXPECT_TRUE(got);
    std::string found;
    for (const auto& header : got->headers) {
      if (header.name == "x-amz-storage-class") found += header.value;
    }
    return found;
  };
  EXPECT_EQ(put_as("bucket", "STANDARD"), Errc::ok);
  EXPECT_EQ(classes("bucket"), "");
  EXPECT_EQ(put_as("bucket", "STANDARD_IA"), Errc::ok);
  EXPECT_EQ(classes("bucket"), "STANDARD_IA");
  EXPECT_EQ(put_as("bucket", "EXPRESS_ONEZONE"), Errc::invalid_storage_class);
  EXPECT_EQ(put_as("dir--local1-az1--x-s3", "EXPRESS_ONEZONE"), Errc::ok);
  EXPECT_EQ(put_as("dir--local1-az1--x-s3", "STANDARD_IA"), Errc::invalid_storage_class);
  EXPECT_EQ(classes("dir--local1-az1--x-s3"), "EXPRESS_ONEZONE");
}

// HTTP refused it in directory buckets.
TEST_F(EndpointTest, AnObjectOfADirectoryBucketHasNoRedirect) {
  FakePeer peer = hello();
  store_.make_bucket("dir--local1-az1--x-s3");
  uint64_t request = 1;
  const auto put_into = [&](std::string_view bucket) {
    wire::Put put;
    put.bucket = bucket;
    put.key = "a";
    put.size = 5;
    put.headers.add({"x-amz-website-redirect-location", "/other"});
    deliver(peer, peer.seal(wire::Type::put, ++request, put, 0, "hello"));
    return reply_code(peer);
  };
  EXPECT_EQ(put_into("bucket"), Errc::ok);
  EXPECT_EQ(put_into("dir--local1-az1--x-s3"), Errc::not_implemented);
}

// A client older than SHA512 treats a reply with it as malformed.
TEST_F(EndpointTest, AnOldSessionIsNotToldOfChecksumsThatItDoesNotKnow) {
  FakePeer now = hello(1, wire::version_of_new_checksums);
  const std::string digest = [] {
    Digest sha512(Algorithm::sha512);
    sha512.update(as_bytes("hello"));
    return sha512.finish();
  }();
  wire::Put put;
  put.bucket = "bucket";
  put.key = "a";
  put.size = 5;
  put.expected.add({Algorithm::sha512, 0, digest});
  deliver(now, now.seal(wire::Type::put, 2, put, 0, "hello"));
  auto body = reply_body(now);
  const auto stored = wire::decode_object_reply(body);
  ASSERT_TRUE(stored);
  ASSERT_EQ(stored->checksums.count, 1u);
  EXPECT_EQ(stored->checksums[0].value, digest);
  deliver(now, now.seal(wire::Type::put, 3, put, 0, "jello"));
  EXPECT_EQ(reply_code(now), Errc::bad_digest);

  for (const unsigned version : {1u, 4u, 5u}) {
    FakePeer peer = hello(1 + version, version);
    deliver(peer, peer.seal(wire::Type::get, 2, get_of("a")));
    body = reply_body(peer);
    const auto got = wire::decode_object_reply(body);
    ASSERT_TRUE(got);
    EXPECT_EQ(as_text(got->inline_bytes), "hello");
    EXPECT_EQ(got->checksums.count, version < 5 ? 0u : 1u) << version;
  }
}

TEST_F(EndpointTest, ThePutsEtagIsAnMd5WhereTheClientAsksForIt) {
  FakePeer peer = hello();
  wire::Put put;
  put.bucket = "bucket";
  put.key = "a";
  put.size = 5;
  deliver(peer, peer.seal(wire::Type::put, 2, put, wire::flag_md5_etag, "hello"));
  const auto body = reply_body(peer);
  const auto stored = wire::decode_object_reply(body);
  ASSERT_TRUE(stored);
  EXPECT_EQ(stored->etag, "5d41402abc4b2a76b9719d911017c592");
}

TEST_F(EndpointTest, WhatS3WorksOutIsToldWhereTheClientAsksForIt) {
  FakePeer peer = hello();
  store_.put("bucket", "a", "hello");
  store::ObjectChange change;
  change.tags = store::Tags{{"one", "1"}, {"two", "2"}};
  boost::asio::co_spawn(core_.io(), store_.update("bucket", "a", "", change), boost::asio::detached);
  run();
  const std::map<std::string, std::string> expected{{"x-amz-tagging-count", "2"}};
  uint64_t request = 1;
  for (const bool hot : {false, true, true}) {
    if (hot) store_.is_hot = [](std::string_view) { return true; };
    for (const auto type : {wire::Type::get, wire::Type::head}) {
      for (const uint8_t flags : {uint8_t{wire::flag_said_headers}, uint8_t{0}, uint8_t{wire::flag_full_headers}}) {
        wire::Get get = get_of("a");
        if (type == wire::Type::head) get.inline_max = 0;
        deliver(peer, peer.seal(type, ++request, get, flags));
        const auto body = reply_body(peer);
        const auto reply = wire::decode_object_reply(body);
        ASSERT_TRUE(reply);
        std::map<std::string, std::string> said;
        for (const auto& header : reply->headers) said.emplace(header.name, header.value);
        const bool asked = (flags & wire::flag_said_headers) != 0;
        EXPECT_EQ(said, asked ? expected : decltype(expected){}) << hot;
      }
    }
  }
}

// A recorded HELLO, or one of a client with two sessions, could open a session on a connection that is encrypted under
// another session's key and closes with that session.
TEST_F(EndpointTest, AHelloOnAConnectionThatAnotherSessionsKeyOpenedIsDropped) {
  FakePeer first = open_session(7), second = open_session(7);
  port_.session_of[7] = first.session;
  const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
  const auto before = dropped("wrong_peer");
  const auto of_second = second.seal(wire::Type::hello, 1, hello);
  deliver(second, of_second);
  EXPECT_TRUE(port_.sent.empty());
  EXPECT_EQ(dropped("wrong_peer"), before + 1);
  deliver(first, first.seal(wire::Type::hello, 1, hello));
  EXPECT_EQ(reply_code(first), Errc::ok);
  // It had no effect: the same HELLO on the second session's own connection opens it.
  second.id = 8;
  port_.session_of[8] = second.session;
  deliver(second, of_second);
  EXPECT_EQ(reply_code(second), Errc::ok);
}

// A same-host client said HELLO and BYE again and again: each of its links kept its place, and its windows stayed
// mapped.
TEST_F(EndpointTest, APeerIsRemovedWithTheLastOfItsStreams) {
  FakePeer one = hello(7), two = hello(7), other = hello(8);
  deliver(one, one.seal(wire::Type::bye, 2, Bytes{}));
  EXPECT_TRUE(port_.removed.empty()) << "it has another stream";
  deliver(two, two.seal(wire::Type::ping, 2, Bytes{}));
  EXPECT_EQ(reply_code(two), Errc::ok);
  deliver(two, two.seal(wire::Type::bye, 3, Bytes{}));
  EXPECT_EQ(port_.removed, std::vector<fabric::PeerId>{7});
  deliver(two, two.seal(wire::Type::bye, 4, Bytes{}));
  port_.gone(8);
  EXPECT_EQ(port_.removed, (std::vector<fabric::PeerId>{7, 8}));
  deliver(other, other.seal(wire::Type::bye, 2, Bytes{}));
  EXPECT_EQ(port_.removed.size(), 2u);
}

TEST_F(EndpointTest, AHelloThatIsDroppedAdmitsNobody) {
  FakePeer peer = open_session(7);
  const wire::Hello hello{.message_size_max = 16 * KiB, .address = {}};
  peer.sequence = ~uint64_t{0};  // the next one is 0, which no message has
  deliver(peer, peer.seal(wire::Type::hello, 1, hello));
  EXPECT_TRUE(port_.admitted.empty());
  EXPECT_TRUE(port_.sent.empty());
  deliver(peer, peer.seal(wire::Type::hello, 1, hello));
  EXPECT_EQ(port_.admitted, std::vector<fabric::PeerId>{7});
  EXPECT_EQ(reply_code(peer), Errc::ok);
}

TEST_F(EndpointTest, AKeyThatIsRemovedEndsItsSessionsAtTheNextMessage) {
  FakePeer peer = hello();
  store_.put("bucket", "a", "hello");
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  credentials_.remove();
  EXPECT_EQ(door_->sessions(), 1u);
  for (uint64_t request : {3u, 4u}) {
    deliver(peer, peer.seal(wire::Type::get, request, get_of("a")));
    EXPECT_EQ(reply_code(peer), Errc::access_denied);
  }
  EXPECT_EQ(door_->sessions(), 0u);
}

// Pings alone kept it, and its place among the sessions, for ever.
TEST_F(EndpointTest, AKeyThatIsRemovedEndsItsSessionsAlsoWithoutAMessage) {
  hello();
  EXPECT_EQ(door_->sessions(), 1u);
  credentials_.remove();
  for (int i = 0; i < 400 && door_->sessions() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(25));
    run();
  }
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(EndpointTest, AnOpenSessionTakesOnWhatItsKeyStandsForNow) {
  FakePeer peer = hello();
  store_.put("bucket", "a", "hello");
  for (uint64_t request : {2u, 3u}) {
    deliver(peer, peer.seal(wire::Type::get, request, get_of("a")));
    EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  }
  const int asked = credentials_.asked;
  deliver(peer, peer.seal(wire::Type::get, 4, get_of("a")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  EXPECT_EQ(credentials_.asked, asked) << "without a change nothing is looked up";
  credentials_.set({"AKROOT", "secret/root", ""}, std::make_shared<const auth::Principal>(*auth::superuser()));
  deliver(peer, peer.seal(wire::Type::get, 5, get_of("a")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  EXPECT_EQ(credentials_.asked, asked + 1);
}

TEST_F(EndpointTest, AKeyThatWasMadeAnewWithAnotherSecretIsAnotherKey) {
  FakePeer peer = hello();
  credentials_.set({"AKROOT", "another secret", ""});
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
}

TEST_F(EndpointTest, ASessionOfTemporaryCredentialsEndsWithThem) {
  credentials_.set({"AKROOT", "secret/root", ""}, auth::superuser(), system_clock().now_s() + 3600);
  FakePeer peer = hello();
  store_.put("bucket", "a", "hello");
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  clock_.shift_s = 3600;
  deliver(peer, peer.seal(wire::Type::get, 3, get_of("a")));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
}

TEST_F(EndpointTest, WhatComesOverAnEncryptedPortIsSecureTransport) {
  port_.is_encrypted = true;
  FakePeer peer = hello();
  store_.put("bucket", "k", "text");
  store_.document("bucket", "policy",
                  R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":)"
                  R"("arn:aws:s3:::bucket*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}})");
  service_.access->all_changed();
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("k")));
  const auto body = reply_body(peer);
  EXPECT_EQ(wire::decode_error(body).value_or(Errc::ok), Errc::ok);
  EXPECT_TRUE(wire::decode_object_reply(body));
}

TEST_F(EndpointTest, APortLearnsTheKeysOfItsSessionsAndOfNoOthers) {
  const FakePeer peer = open_session();
  fabric::ConnectionKey key;
  ASSERT_TRUE(port_.find_key(peer.session, &key));
  EXPECT_EQ(key.bytes, wire::derive_connection(peer.master, 0));
  EXPECT_TRUE(port_.find_key(peer.session, nullptr));
  EXPECT_FALSE(port_.find_key(peer.session + 1, &key));
}

TEST_F(EndpointTest, AnOpenSessionLosesAccessWithThePolicy) {
  FakePeer peer = hello();
  store_.put("bucket", "k", "text");
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("k")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  // RDMA is not covered by TLS, whatever the session request used.
  store_.document("bucket", "policy",
                  R"({"Version":"2012-10-17","Statement":{"Effect":"Deny","Principal":"*","Action":"s3:*","Resource":)"
                  R"("arn:aws:s3:::bucket*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}})");
  service_.access->all_changed();
  wire::Put put;
  put.bucket = "bucket";
  put.key = "new";
  wire::List list;
  list.bucket = "bucket";
  list.max_keys = 10;
  wire::Delete removal;
  removal.bucket = "bucket";
  removal.key = "k";
  deliver(peer, peer.seal(wire::Type::get, 3, get_of("k")));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
  deliver(peer, peer.seal(wire::Type::head, 4, get_of("k")));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
  deliver(peer, peer.seal(wire::Type::put, 5, put));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
  deliver(peer, peer.seal(wire::Type::list, 6, list));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
  deliver(peer, peer.seal(wire::Type::del, 7, removal));
  EXPECT_EQ(reply_code(peer), Errc::access_denied);
  store_.forget_document("bucket", "policy");
  service_.access->all_changed();
  deliver(peer, peer.seal(wire::Type::get, 8, get_of("k")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
}

TEST_F(EndpointTest, RangesComeOneAfterTheOther) {
  FakePeer peer = hello();
  store_.put("bucket", "digits", "0123456789");
  wire::Get get = get_of("digits");
  get.ranges.add({7, wire::open_end});
  get.ranges.add({0, 1});
  get.ranges.add({wire::open_end, 2});
  deliver(peer, peer.seal(wire::Type::get, 2, get));
  const auto body = reply_body(peer);
  const auto reply = wire::decode_object_reply(body);
  ASSERT_TRUE(reply);
  EXPECT_EQ(as_text(reply->inline_bytes), "7890189");
  EXPECT_TRUE(reply->partial);
  ASSERT_EQ(reply->ranges.count, 3u);
  EXPECT_EQ(reply->ranges[2].offset, 8u);
  EXPECT_EQ(reply->object_size, 10u);

  get.ranges.add({10, 12});
  deliver(peer, peer.seal(wire::Type::get, 3, get));
  EXPECT_EQ(reply_code(peer), Errc::invalid_range);
}

TEST_F(EndpointTest, BytesThatFitNeitherReplyNorWindowAreTooLarge) {
  FakePeer peer = hello();
  store_.put("bucket", "big", std::string(5000, 'x'));
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("big")));
  EXPECT_EQ(reply_code(peer), Errc::too_large);
  wire::Get get = get_of("big");
  get.window = {0, 4999, 1};
  deliver(peer, peer.seal(wire::Type::get, 3, get, wire::flag_window));
  EXPECT_EQ(reply_code(peer), Errc::too_large);
}

TEST_F(EndpointTest, ErrorsAreS3s) {
  FakePeer peer = hello();
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("none")));
  EXPECT_EQ(reply_code(peer), Errc::no_such_key);
  wire::Get get = get_of("a");
  get.bucket = "elsewhere";
  deliver(peer, peer.seal(wire::Type::head, 3, get));
  EXPECT_EQ(reply_code(peer), Errc::no_such_bucket);
  wire::Put put;
  put.bucket = "bucket";
  put.key = "a";
  put.size = 1;
  put.expected.add({Algorithm::crc32c, 0, "none"});
  deliver(peer, peer.seal(wire::Type::put, 4, put, 0, "x"));
  EXPECT_EQ(reply_code(peer), Errc::bad_digest);
  EXPECT_FALSE(store_.contains("bucket", "a"));
}

TEST_F(EndpointTest, AHeaderThatWouldEndItsLineIsNotStored) {
  FakePeer peer = hello();
  wire::Put put;
  put.bucket = "bucket";
  put.key = "a";
  put.headers.add({"x-amz-meta-a", "b\r\nset-cookie: c"});
  deliver(peer, peer.seal(wire::Type::put, 2, put));
  EXPECT_NE(reply_code(peer), Errc::ok);
  EXPECT_FALSE(store_.contains("bucket", "a"));
}

// In both forms of a reply's items.
TEST_F(EndpointTest, AKeyIsListedAndDeleted) {
  for (int i = 0; i < 1000; ++i) store_.put("bucket", "key/" + std::to_string(1000 + i), "x");
  constexpr size_t room = 16 * KiB - wire::frame_size, item_max = 64;  // bytes
  fabric::PeerId id = 0;
  for (const unsigned version : {1u, wire::version_of_short_listings}) {
    FakePeer peer = hello(++id, version);
    std::string after;
    size_t count = 0, full = 0, bytes = 0;
    for (bool more = true; more; full += more) {
      const wire::List list{.bucket = "bucket", .prefix = "key/", .delimiter = {}, .after = after};
      deliver(peer, peer.seal(wire::Type::list, 2, list));
      const auto body = reply_body(peer);
      auto reply = wire::ListReader::open(body, version);
      ASSERT_TRUE(reply);
      more = reply->truncated();
      count += reply->left();
      bytes += body.size();
      for (wire::ListItem item; reply->next(item); after = item.key) ASSERT_LT(after, item.key);
      ASSERT_TRUE(reply->complete());
    }
    EXPECT_EQ(count, 1000u) << "a page that fills its message goes on in the next";
    EXPECT_LE(full * (room - item_max), bytes) << "pages end too early";
  }
  FakePeer peer = hello(++id);
  const wire::Delete del{.bucket = "bucket", .key = "key/1000", .if_match = {}};
  deliver(peer, peer.seal(wire::Type::del, 3, del));
  EXPECT_EQ(reply_code(peer), Errc::ok);
  EXPECT_EQ(store_.count("bucket"), 999u);
}

TEST_F(EndpointTest, ForgedReplayedTruncatedAndOversizedMessagesAreDroppedAndCountedWhileOthersWork) {
  FakePeer peer = hello(1), other = hello(2);
  store_.put("bucket", "a", "bytes");
  const auto good = peer.seal(wire::Type::get, 2, get_of("a"));
  const uint64_t macs = dropped("bad_mac"), truncated = dropped("truncated"), lengths = dropped("bad_length"),
                 oversized = dropped("oversized"), replays = dropped("replayed"), peers = dropped("wrong_peer"),
                 unknown = dropped("unknown_session"), magics = dropped("bad_magic");

  auto forged = good;
  forged.back() ^= std::byte{1};
  deliver(peer, forged);
  EXPECT_EQ(dropped("bad_mac"), macs + 1);
  for (size_t size = 0; size < good.size(); ++size) {
    port_.receive(peer.id, Bytes(good).first(size));
  }
  EXPECT_EQ(dropped("truncated"), truncated + wire::frame_size);
  EXPECT_EQ(dropped("bad_length"), lengths + good.size() - wire::frame_size);
  deliver(peer, std::vector<std::byte>(16 * KiB + 1));
  EXPECT_EQ(dropped("oversized"), oversized + 1);
  deliver(peer, std::vector<std::byte>(100));
  EXPECT_EQ(dropped("bad_magic"), magics + 1);
  deliver(other, good);  // another peer uses this session
  EXPECT_EQ(dropped("wrong_peer"), peers + 1);
  FakePeer unknown_session = peer;
  unknown_session.session ^= 1;
  deliver(unknown_session, unknown_session.seal(wire::Type::ping, 9, Bytes{}));
  EXPECT_EQ(dropped("unknown_session"), unknown + 1);
  EXPECT_TRUE(port_.sent.empty()) << "there is no answer";

  deliver(peer, good);
  EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  deliver(peer, good);
  EXPECT_EQ(dropped("replayed"), replays + 1);
  EXPECT_TRUE(port_.sent.empty());
  deliver(other, other.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(other)));
}

TEST_F(EndpointTest, AMessageOfOneEndpointIsWorthNothingOnAnother) {
  FakePort second;
  NativeDoor door(service_, verifier_, credentials_, {});
  ASSERT_TRUE(door.attach(core_, second, "local", "/elsewhere"));
  FakePeer peer = hello();
  FakePeer same = peer;
  same.keys = wire::derive_stream(peer.master, 1);
  const uint64_t before = dropped("bad_mac");
  deliver(peer, same.seal(wire::Type::ping, 5, Bytes{}));
  EXPECT_EQ(dropped("bad_mac"), before + 1);
}

TEST_F(EndpointTest, AnAuthenticMessageWithAMalformedBodyIsAnswered) {
  FakePeer peer = hello();
  const std::byte junk[3] = {};
  for (auto type : {wire::Type::get, wire::Type::head, wire::Type::put, wire::Type::del, wire::Type::list}) {
    deliver(peer, peer.seal(type, 2, Bytes(junk)));
    EXPECT_EQ(reply_code(peer), Errc::invalid_request);
  }
  EXPECT_EQ(door_->in_flight(), 0u);
}

TEST_F(EndpointTest, AnUnknownTypeIsDropped) {
  FakePeer peer = hello();
  const uint64_t before = dropped("bad_type");
  for (int type : {0, 4, 31, 32, 0x90, 0xff}) deliver(peer, peer.seal(static_cast<wire::Type>(type), 2, Bytes{}));
  EXPECT_EQ(dropped("bad_type"), before + 6);
}

TEST_F(EndpointTest, RequestsBeyondTheCreditsAreTurnedAway) {
  FakePeer peer = hello();
  store_.put("bucket", "a", "bytes");
  for (uint64_t i = 0; i < 6; ++i) port_.receive(peer.id, peer.seal(wire::Type::get, i, get_of("a")));
  EXPECT_EQ(door_->in_flight(), 4u);
  EXPECT_EQ(reply_code(peer), Errc::slow_down);
  EXPECT_EQ(reply_code(peer), Errc::slow_down);
  run();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(wire::decode_object_reply(reply_body(peer)));
  EXPECT_EQ(door_->in_flight(), 0u);
}

TEST_F(EndpointTest, APeerThatTakesNoRepliesLosesItsStreamAndNothingElse) {
  FakePeer peer = hello(1), other = hello(2);
  store_.put("bucket", "a", "bytes");
  port_.full = true;
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_EQ(door_->in_flight(), 1u) << "the reply waits";
  const uint64_t before = dropped("undeliverable");
  std::thread loop([this] { core_.run(); });
  for (int i = 0; i < 500 && door_->in_flight() != 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  core_.stop();
  loop.join();
  EXPECT_EQ(door_->in_flight(), 0u);
  EXPECT_EQ(dropped("undeliverable"), before + 1);
  EXPECT_EQ(door_->sessions(), 1u);
  port_.full = false;
  core_.io().restart();
  deliver(other, other.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_TRUE(wire::decode_object_reply(reply_body(other)));
}

class WaitingReplies : public DoorTest {
 protected:
  WaitingReplies() : DoorTest({.credits = 4, .reply_deadline = std::chrono::minutes(10)}) {}
};

TEST_F(WaitingReplies, OfOnePeerOneIsTriedATurn) {
  FakePeer peer = hello(1), other = hello(2);
  port_.full = true;
  wire::Get get;
  get.bucket = "bucket";
  get.key = "none";
  for (uint64_t i = 2; i <= 4; ++i) deliver(peer, peer.seal(wire::Type::get, i, get));
  deliver(other, other.seal(wire::Type::get, 2, get));
  EXPECT_EQ(door_->in_flight(), 4u);
  port_.attempts = 0;
  EXPECT_EQ(door_->poll(), 0u);
  EXPECT_EQ(port_.attempts, 2u);
  port_.full = false;
  EXPECT_EQ(door_->poll(), 4u);
  for (uint64_t i = 2; i <= 4; ++i) {
    uint64_t request = 0;
    EXPECT_EQ(wire::decode_error(reply_body(peer, &request)), Errc::no_such_key);
    EXPECT_EQ(request, i) << "in their order";
  }
  EXPECT_EQ(reply_code(other), Errc::no_such_key);
}

TEST_F(EndpointTest, ASessionEndsWithItsPeerAndCannotBeRevived) {
  FakePeer peer = hello();
  const wire::Hello greeting{.message_size_max = 16 * KiB, .address = {}};
  port_.gone(peer.id);
  EXPECT_EQ(door_->sessions(), 0u);
  const uint64_t before = dropped("lane_closed");
  deliver(peer, peer.seal(wire::Type::hello, 2, greeting));
  EXPECT_EQ(dropped("lane_closed"), before + 1);
  EXPECT_TRUE(port_.sent.empty());
}

TEST_F(EndpointTest, ByeEndsASession) {
  FakePeer peer = hello();
  EXPECT_EQ(door_->sessions(), 1u);
  deliver(peer, peer.seal(wire::Type::bye, 2, Bytes{}));
  EXPECT_EQ(door_->sessions(), 0u);
}

TEST_F(EndpointTest, OnlyAHelloOpensAStream) {
  FakePeer peer = open_session();
  const uint64_t before = dropped("unknown_session");
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_EQ(dropped("unknown_session"), before + 1);
  FakePeer forger = peer;
  forger.keys.to_server.bytes[0] ^= std::byte{1};
  const wire::Hello greeting{.message_size_max = 16 * KiB, .address = {}};
  const uint64_t macs = dropped("bad_mac");
  deliver(forger, forger.seal(wire::Type::hello, 3, greeting));
  EXPECT_EQ(dropped("bad_mac"), macs + 1);
  EXPECT_TRUE(port_.sent.empty());
}

TEST_F(EndpointTest, WhereTheSenderIsUnknownTheAddressMustBeThePeersOwn) {
  const auto hello_from = [&](std::string_view address) {
    FakePeer peer = open_session(0);
    const wire::Hello greeting{.message_size_max = 16 * KiB, .address = address};
    deliver(peer, peer.seal(wire::Type::hello, 1, greeting));
    const bool answered = !port_.sent.empty();
    port_.sent.clear();
    return answered;
  };
  using namespace std::string_view_literals;
  EXPECT_TRUE(hello_from("\x02\x00\x1f\x90\x7f\x00\x00\x01\0\0\0\0\0\0\0\0"sv));   // 127.0.0.1, as the HTTP peer
  EXPECT_FALSE(hello_from("\x02\x00\x1f\x90\x0a\x00\x00\x01\0\0\0\0\0\0\0\0"sv));  // 10.0.0.1
  EXPECT_FALSE(hello_from("\x02\x00\x1f\x90"sv));
  EXPECT_FALSE(hello_from(""sv));
}

TEST_F(EndpointTest, AStoppingDoorRefusesRequests) {
  FakePeer peer = hello();
  door_->stop();
  deliver(peer, peer.seal(wire::Type::get, 2, get_of("a")));
  EXPECT_EQ(reply_code(peer), Errc::slow_down) << "nothing was done, and clients may ask again";
}

std::string socket_name(const char* ip, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, ip, &address.sin_addr);
  return {reinterpret_cast<const char*>(&address), sizeof address};
}

TEST(OwnPorts, AreKnownOnEveryAddressOfThisHostOnly) {
  const std::vector<uint16_t> ports{9000, 9100};
  EXPECT_TRUE(names_own_port(socket_name("127.0.0.1", 9000), ports));
  EXPECT_TRUE(names_own_port(socket_name("127.8.9.1", 9100), ports)) << "all of 127/8 is this host";
  EXPECT_TRUE(names_own_port(socket_name("0.0.0.0", 9100), ports));
  EXPECT_FALSE(names_own_port(socket_name("127.0.0.1", 9001), ports));
  EXPECT_FALSE(names_own_port(socket_name("192.0.2.1", 9000), ports));
  EXPECT_FALSE(names_own_port("garbage", ports));
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_port = htons(9000);
  six.sin6_addr = in6addr_loopback;
  EXPECT_TRUE(names_own_port({reinterpret_cast<const char*>(&six), sizeof six}, ports));
  inet_pton(AF_INET6, "::ffff:127.0.0.1", &six.sin6_addr);
  EXPECT_TRUE(names_own_port({reinterpret_cast<const char*>(&six), sizeof six}, ports));
}

// `from` 0: a fabric that does not identify senders, so the session sends its address.
TEST_F(EndpointTest, AHelloThatNamesTheServersOwnPortIsDroppedWhateverTheRuleOfDialling) {
  door_->add_own_port(9000);
  const uint64_t before = dropped("wrong_peer");
  FakePeer peer = open_session(0);
  const std::string own = socket_name("127.0.0.1", 9000), other = socket_name("127.0.0.1", 9001);
  deliver(peer, peer.seal(wire::Type::hello, 1, wire::Hello{.message_size_max = 16 * KiB, .address = own}));
  EXPECT_EQ(dropped("wrong_peer"), before + 1);
  EXPECT_TRUE(port_.sent.empty());
  EXPECT_EQ(port_.peers, 100u) << "nothing was dialled";
  deliver(peer, peer.seal(wire::Type::hello, 2, wire::Hello{.message_size_max = 16 * KiB, .address = other}));
  EXPECT_EQ(port_.peers, 101u);
  EXPECT_FALSE(port_.sent.empty());
}

}  // namespace
}  // namespace verbena::native
