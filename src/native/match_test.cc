// MATCH at the door.
#include "native/wire/match.h"

#include "native/test_batches.h"

namespace verbena::native {
namespace {

struct MatchAnswer {
  std::optional<Errc> refused;
  uint64_t lease = 0;
  std::vector<wire::MatchedList> lists;
  std::vector<wire::MatchRun> runs;  // of all lists
};

class MatchTest : public BatchTest {
 protected:
  MatchTest() { peer_ = hello(2, wire::version_of_match); }

  static std::vector<std::byte> hash(unsigned number, size_t width = 16) {
    std::vector<std::byte> bytes(width, std::byte{0xa5});
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<std::byte>(number >> (8 * i));
    return bytes;
  }
  static std::string key(unsigned number, size_t width = 16) { return "ns/" + to_hex(hash(number, width)); }
  static std::vector<std::byte> hashes(unsigned from, unsigned count, size_t width = 16) {
    std::vector<std::byte> all;
    for (unsigned i = 0; i < count; ++i) std::ranges::copy(hash(from + i, width), std::back_inserter(all));
    return all;
  }
  void store(unsigned from, unsigned count, size_t size = 100) {
    for (unsigned i = 0; i < count; ++i) store_.put("bucket", key(from + i), std::string(size, 'x'));
  }
  void drop(const std::string& key) {
    deliver(peer_,
            peer_.seal(wire::Type::del, ++request_, wire::Delete{.bucket = "bucket", .key = key, .if_match = {}}));
    EXPECT_EQ(reply_code(peer_), Errc::ok);
  }
  static wire::Match request(Bytes keys, std::initializer_list<uint32_t> counts) {
    wire::Match match;
    match.bucket = "bucket";
    match.prefix = "ns/";
    match.details = wire::match_details_all;
    match.keys = keys;
    for (const uint32_t count : counts) match.counts.add(count);
    return match;
  }
  // As many hashes as the window holds, from its beginning.
  wire::Match from_window(Bytes keys, std::initializer_list<uint32_t> counts) {
    if (memory_.size() < keys.size()) memory_.resize(keys.size());
    std::ranges::copy(keys, memory_.begin());
    wire::Match match = request({}, counts);
    match.window = {0, keys.size(), 1};
    return match;
  }
  MatchAnswer match(const wire::Match& request) {
    std::vector<std::byte> body(15 * KiB);
    wire::Writer out(body);
    EXPECT_TRUE(encode(out, request));
    deliver(peer_, peer_.seal(wire::Type::match, ++request_, Bytes(body).first(out.size())));
    for (int i = 0; i < 100 && port_.sent.empty(); ++i) run();
    const auto reply = reply_body(peer_);
    MatchAnswer answer;
    answer.refused = wire::decode_error(reply);
    if (answer.refused != Errc::ok) return answer;
    auto reader = wire::MatchReader::open(reply);
    EXPECT_TRUE(reader);
    answer.lease = reader->lease();
    for (wire::MatchedList list; reader->left() != 0;) {
      EXPECT_TRUE(reader->next(list));
      answer.lists.push_back(list);
      for (wire::MatchRun run; reader->next_run(run);) answer.runs.push_back(run);
    }
    EXPECT_TRUE(reader->complete());
    EXPECT_EQ(door_->in_flight(), 0u);
    return answer;
  }
  uint32_t leading(const wire::Match& request) {
    const auto answer = match(request);
    EXPECT_EQ(answer.refused, Errc::ok);
    return answer.lists.size() == 1 ? answer.lists[0].leading : ~0u;
  }
};

TEST_F(MatchTest, TheLeadingKeysThatExistAreCounted) {
  store(0, 40);
  const auto keys = hashes(0, 100);
  for (const bool hot : {false, true}) {
    if (hot) make_hot();
    const auto answer = match(request(keys, {100}));
    ASSERT_EQ(answer.lists.size(), 1u);
    EXPECT_EQ(answer.lists[0].leading, 40u);
    EXPECT_EQ(answer.lists[0].code, Errc::no_such_key);
    EXPECT_FALSE(answer.lists[0].more);
    const auto place = hot ? wire::KeyPlace::memory : wire::KeyPlace::disk;
    ASSERT_EQ(answer.runs.size(), 1u);
    EXPECT_EQ(answer.runs[0], (wire::MatchRun{40, place, 100}));
  }
  store_.is_hot = [](std::string_view key) { return key < MatchTest::key(7); };
  EXPECT_EQ(leading(request(keys, {100})), 40u) << "some of a group in memory";
  EXPECT_EQ(leading(request(Bytes(keys).first(640), {40})), 40u) << "all there";
  drop(key(0));
  EXPECT_EQ(leading(request(keys, {100})), 0u);
}

TEST_F(MatchTest, EachListHasItsOwnEnd) {
  store(0, 20);
  store(50, 5);
  std::vector<std::byte> keys = hashes(0, 30);
  std::ranges::copy(hashes(45, 30), std::back_inserter(keys));
  std::ranges::copy(hashes(50, 5), std::back_inserter(keys));
  for (const bool windowed : {false, true}) {
    const auto answer = match(windowed ? from_window(keys, {30, 30, 5}) : request(keys, {30, 30, 5}));
    ASSERT_EQ(answer.lists.size(), 3u) << windowed;
    EXPECT_EQ(answer.lists[0].leading, 20u);
    EXPECT_EQ(answer.lists[1].leading, 0u);
    EXPECT_EQ(answer.lists[2].leading, 5u);
    EXPECT_EQ(answer.lists[2].code, Errc::ok);
  }
}

TEST_F(MatchTest, ALongListIsReadFromTheWindowPieceByPiece) {
  constexpr unsigned count = 5000;  // more than a piece
  store(0, count, 1);
  const auto keys = hashes(0, count);
  make_hot();
  for (const bool immediate : {true, false}) {
    immediate_ = immediate;
    window_.reads = 0;
    EXPECT_EQ(leading(from_window(keys, {count})), count) << immediate;
    EXPECT_EQ(window_.reads, immediate ? 0 : 2);
  }
  drop(key(1));
  window_.reads = 0;
  EXPECT_EQ(leading(from_window(keys, {count})), 1u);
  EXPECT_EQ(window_.reads, 1) << "the end of a list ends the reading";
  std::vector<std::byte> lists = hashes(0, 4500);
  std::ranges::copy(hashes(2, 500), std::back_inserter(lists));
  const auto answer = match(from_window(lists, {4500, 500}));
  ASSERT_EQ(answer.lists.size(), 2u);
  EXPECT_EQ(answer.lists[1].leading, 500u) << "the rest of a list is passed over";
}

TEST_F(MatchTest, AWindowThatCannotBeReadFailsTheWhole) {
  immediate_ = false;
  window_.readable = 0;
  EXPECT_EQ(match(from_window(hashes(0, 10), {10})).refused, Errc::rdma_transfer_failed);
}

TEST_F(MatchTest, WideHashesAndWholeKeys) {
  store_.put("bucket", key(1, 32), "x");
  wire::Match wide = request({}, {2});
  const auto keys = hashes(1, 2, 32);
  wide.width = 32;
  wide.keys = keys;
  EXPECT_EQ(leading(wide), 1u);
  std::vector<std::byte> space(100);
  wire::Writer out(space);
  for (const char* name : {"one", "two", "three"}) wire::put_text16(out, name);
  store_.put("bucket", "ns/one", "x");
  store_.put("bucket", "ns/two", "x");
  wire::Match whole = request(Bytes(space).first(out.size()), {3});
  whole.width = 0;
  EXPECT_EQ(leading(whole), 2u);
  whole.counts = {};
  whole.counts.add(1);
  whole.counts.add(2);
  EXPECT_EQ(match(whole).lists.size(), 2u);
}

TEST_F(MatchTest, AnAnswerThatIsFullSaysSo) {
  constexpr unsigned count = 900;
  for (unsigned i = 0; i < count; ++i) store_.put("bucket", key(i), std::string(i % 2 + 1, 'x'));
  const auto keys = hashes(0, count);
  std::vector<std::byte> behind(keys);
  std::ranges::copy(hashes(0, 10), std::back_inserter(behind));
  peer_ = open_session(3, wire::version_of_match);
  const wire::Hello hello{.message_size_max = 4096, .address = {}};
  deliver(peer_, peer_.seal(wire::Type::hello, 1, hello));
  port_.sent.clear();
  const auto answer = match(request(behind, {count, 10}));
  ASSERT_EQ(answer.lists.size(), 1u) << "lists behind are not answered";
  EXPECT_TRUE(answer.lists[0].more);
  EXPECT_EQ(answer.lists[0].leading, answer.runs.size());
  EXPECT_GT(answer.runs.size(), 250u);
  wire::Match plain = request(keys, {count});
  plain.details = 0;
  EXPECT_EQ(leading(plain), count) << "without details it fits";
}

TEST_F(MatchTest, AKeyThatMayNotBeReadEndsTheList) {
  be_the_owner();
  peer_ = hello(60, wire::version_of_match);
  store(0, 20);
  const std::string denied = R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/)" + key(5) + R"(")";
  for (const bool hot : {false, true}) {
    store_.is_hot = [hot](std::string_view) { return hot; };
    store_.forget_document("bucket", "policy");
    service_.access->all_changed();
    EXPECT_EQ(leading(request(hashes(0, 20), {20})), 20u);
    deny(denied.c_str());
    const auto answer = match(request(hashes(0, 20), {20}));
    ASSERT_EQ(answer.lists.size(), 1u);
    EXPECT_EQ(answer.lists[0].leading, 5u) << hot;
    EXPECT_EQ(answer.lists[0].code, Errc::access_denied);
  }
  credentials_.remove();
  EXPECT_EQ(match(request(hashes(0, 20), {20})).refused, Errc::access_denied);
}

class MatchRatesTest : public MatchTest {};

TEST_F(MatchRatesTest, EachKeyIsARequestOfTheRate) {
  auth::Principal limited = *auth::superuser();
  limited.superuser = false;
  limited.account_limits = auth::make_limits({.requests_per_s = 20});
  store(0, 200);
  credentials_.set({"AKROOT", "secret/root", ""}, std::make_shared<const auth::Principal>(limited));
  peer_ = hello(5, wire::version_of_match);
  const auto answer = match(request(hashes(0, 200), {200}));
  ASSERT_EQ(answer.lists.size(), 1u);
  EXPECT_EQ(answer.lists[0].code, Errc::slow_down);
  EXPECT_GE(answer.lists[0].leading, 16u);
  EXPECT_LT(answer.lists[0].leading, 100u);
  EXPECT_EQ(match(request(hashes(0, 1), {1})).refused, Errc::slow_down);
}

TEST_F(MatchTest, BadRequestsAreRefused) {
  const auto keys = hashes(0, 10);
  EXPECT_EQ(match(request(keys, {11})).refused, Errc::invalid_request);
  wire::Match nowhere = request(keys, {10});
  nowhere.bucket = "nothing-here";
  EXPECT_EQ(match(nowhere).lists.at(0).code, Errc::no_such_bucket);
  const uint64_t before = dropped("bad_type");
  peer_ = hello(7, wire::version_of_match - 1);
  EXPECT_EQ(match(request(keys, {10})).refused, std::nullopt) << "an older session does not know it";
  EXPECT_EQ(dropped("bad_type"), before + 1);
}

TEST_F(MatchTest, ManyAtOnceTakeTurns) {
  store(0, 300, 1);
  const auto keys = hashes(0, 300);
  std::vector<std::byte> body(15 * KiB);
  wire::Writer out(body);
  ASSERT_TRUE(encode(out, request(keys, {300})));
  for (int i = 0; i < 8; ++i)
    port_.receive(peer_.id, peer_.seal(wire::Type::match, ++request_, Bytes(body).first(out.size())));
  for (int i = 0; i < 20; ++i) run();
  for (int i = 0; i < 8; ++i) {
    const auto reply = reply_body(peer_);
    auto reader = wire::MatchReader::open(reply);
    wire::MatchedList list;
    ASSERT_TRUE(reader && reader->next(list)) << i;
    EXPECT_EQ(list.leading, 300u);
  }
}

}  // namespace
}  // namespace verbena::native
