// Batches at the door: what is refused as a whole, and what is an item's own affair.
#include "native/wire/batch.h"

#include <chrono>
#include <thread>

#include "native/test_batches.h"

namespace verbena::native {
namespace {

TEST_F(BatchTest, EachItemGoesToItsPlaceAndHasAnOutcomeOfItsOwn) {
  for (const bool immediate : {true, false}) {
    immediate_ = immediate;
    store_.put("bucket", "a", "first");
    store_.put("bucket", "c", "third one");
    std::ranges::fill(memory_, std::byte{0});
    auto head = this->head();
    head.inline_max = 0;
    const auto answer = ask(wire::Type::get_many, head,
                            {{"a", {0, 100, 50}}, {"absent", {0, 200, 50}}, {"c", {0, 300, 50}}, {"c", {0, 400, 8}}});
    ASSERT_EQ(answer.entries.size(), 4u);
    EXPECT_EQ(answer.entries[0].length, 5u);
    EXPECT_EQ(answer.entries[0].etag, "etag-a");
    EXPECT_EQ(memory(100, 6), std::string_view("first\0", 6));
    EXPECT_EQ(answer.entries[1].code, Errc::no_such_key);
    EXPECT_EQ(memory(300, 9), "third one") << "a key may be read twice";
    EXPECT_EQ(answer.entries[3].code, Errc::too_large);
    EXPECT_EQ(memory(400, 8), std::string_view("\0\0\0\0\0\0\0\0", 8)) << "nothing is cut to fit";
    EXPECT_EQ(door_->in_flight(), 0u);
  }
}

TEST_F(BatchTest, SmallOnesRideInTheReplyAndWhatDoesNotFitItIsLeftToAskForAgain) {
  std::vector<Item> items;
  for (int i = 0; i < 40; ++i) {
    items.push_back({"k" + std::to_string(i)});
    store_.put("bucket", items.back().key, std::string(1000, static_cast<char>('a' + i)));
  }
  auto head = this->head();
  head.inline_max = 4096;
  // The fake endpoint is `local`: 512 bytes.
  auto answer = ask(wire::Type::get_many, head, {items[0]});
  ASSERT_EQ(answer.entries.size(), 1u);
  EXPECT_EQ(answer.entries[0].code, Errc::too_large);
  for (auto& item : items) store_.put("bucket", item.key, std::string(500, item.key.back()));
  answer = ask(wire::Type::get_many, head, items);
  ASSERT_GT(answer.entries.size(), 20u);
  ASSERT_LT(answer.entries.size(), 40u) << "a reply of 16 KiB holds no 40 times 500 bytes";
  for (size_t i = 0; i < answer.entries.size(); ++i) {
    EXPECT_EQ(as_text(answer.entries[i].inline_bytes), std::string(500, items[i].key.back())) << i;
  }
}

TEST_F(BatchTest, HeadsComeManyAtOnce) {
  store_.put("bucket", "a", "first");
  const auto answer = ask(wire::Type::head_many, head(), {{"a"}, {"b"}, {"a"}});
  ASSERT_EQ(answer.entries.size(), 3u);
  EXPECT_EQ(answer.entries[0].object_size, 5u);
  EXPECT_EQ(answer.entries[1].code, Errc::no_such_key);
  EXPECT_EQ(answer.entries[2].etag, "etag-a");
}

TEST_F(BatchTest, WindowsAndPlacesThatOverlapAreRefusedBeforeAnythingHappens) {
  store_.put("bucket", "a", "first");
  const auto refused = [&](const wire::BatchHead& head, const std::vector<Item>& items) {
    const uint64_t before = dropped("malformed");
    const auto answer = ask(wire::Type::get_many, head, items);
    EXPECT_EQ(answer.refused, Errc::invalid_request);
    EXPECT_EQ(dropped("malformed"), before + 1);
    EXPECT_EQ(memory(0, 5), std::string_view("\0\0\0\0\0", 5));
  };
  refused(head(), {{"a", {0, 0, 10}}, {"a", {0, 9, 10}}});
  refused(head(), {{"a", {0, 50, 10}}, {"a", {0, 0, 10}}, {"a", {0, 45, 10}}});
  refused(head(), {{"a", {0, 0, 10}}, {"a", {0, memory_.size() - 9, 10}}});
  refused(head(), {{"a", {0, 0, 10}}, {"a", {0, ~uint64_t{0} - 4, 10}}});
  refused(head(), {{"a", {0, 0, 10}}, {"a", {1, 20, 10}}});
  auto two = head();
  two.windows.add({100, 10, 1});
  refused(two, {{"a", {0, 0, 10}}});
  auto progress = head();
  progress.progress_window = 0;
  progress.progress_offset = 8;
  refused(progress, {{"a", {0, 0, 10}}});
  progress.progress_offset = 1001;
  refused(progress, {{"a", {0, 0, 10}}});
  progress.progress_offset = memory_.size() - 7;
  refused(progress, {{"a", {0, 0, 10}}});
  auto same = head();
  same.buckets.add("bucket");
  refused(same, {{"a", {0, 0, 10}}});
  // Places in any order are fine.
  const auto fine = ask(wire::Type::get_many, head(), {{"a", {0, 50, 10}}, {"a", {0, 0, 10}}, {"a", {0, 20, 10}}});
  EXPECT_EQ(fine.entries.size(), 3u);
}

TEST_F(BatchTest, TheProgressWordCountsLeadingItemsUpToTheFirstThatFailed) {
  for (const bool immediate : {true, false}) {
    immediate_ = immediate;
    for (const char* key : {"a", "b", "d"}) store_.put("bucket", key, "bytes");
    auto head = this->head();
    head.progress_window = 0;
    head.progress_offset = 1024;
    const auto told = [&] { return wire::Reader(Bytes(memory_).subspan(1024, 8)).u64(); };
    EXPECT_EQ(ask(wire::Type::get_many, head, {{"a", {0, 0, 10}}, {"b", {0, 10, 10}}}).entries.size(), 2u);
    EXPECT_EQ(told(), 2u);
    ask(wire::Type::get_many, head, {{"a", {0, 0, 10}}, {"c", {0, 10, 10}}, {"d", {0, 20, 10}}});
    EXPECT_EQ(told(), 1u);
    EXPECT_EQ(memory(20, 5), "bytes") << "those behind it arrive all the same";
  }
}

TEST_F(BatchTest, TheProgressWordTellsWhatIsThereBeforeAnItemIsWaitedFor) {
  for (const char* key : {"a", "b"}) store_.put("bucket", key, "bytes");
  make_hot();
  store_.is_hot = [](std::string_view key) { return key == "a"; };
  auto head = this->head();
  head.inline_max = 0;
  head.progress_window = 0;
  head.progress_offset = 1024;
  const auto told = [&] { return wire::Reader(Bytes(memory_).subspan(1024, 8)).u64(); };
  bring(wire::Type::get_many, head, {{"a", {0, 0, 10}}, {"b", {0, 10, 10}}});
  EXPECT_EQ(told(), 1u) << "the other one is being fetched";
  EXPECT_EQ(answer_to_it().entries.size(), 2u);
  EXPECT_EQ(told(), 2u);
}

TEST_F(BatchTest, OneForbiddenKeyAmongThousandsIsTheOnlyOneThatFails) {
  deny(R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/k0666")");
  const auto items = small_objects(1000);
  auto head = this->head();
  head.details = 0;
  const auto answer = ask(wire::Type::head_many, head, items);
  ASSERT_EQ(answer.entries.size(), 1000u);
  for (size_t i = 0; i < 1000; ++i) {
    EXPECT_EQ(answer.entries[i].code, i == 666 ? Errc::access_denied : Errc::ok) << i;
  }
}

TEST_F(BatchTest, ManyObjectsAreStoredAndRemovedByOneMessage) {
  std::ranges::copy(as_bytes("from the window"), memory_.begin() + 64);
  store_.put("bucket", "there", "before");
  const auto put = ask(wire::Type::put_many, head(),
                       {{"a", {}, "inline"},
                        {"b", {0, 64, 15}},
                        {"there", {}, "after", wire::field_if_none_match, 0, "*"},
                        {"empty", {}, ""}});
  ASSERT_EQ(put.entries.size(), 4u);
  EXPECT_EQ(put.entries[0].length, 6u);
  EXPECT_NE(put.entries[1].etag.find('-'), std::string_view::npos);
  EXPECT_EQ(put.entries[2].code, Errc::precondition_failed);
  EXPECT_EQ(store_.object("bucket", "a").data, "inline");
  EXPECT_EQ(store_.object("bucket", "b").data, "from the window");
  EXPECT_EQ(store_.object("bucket", "there").data, "before");
  EXPECT_EQ(store_.object("bucket", "empty").data, "");
  const auto removed = ask(wire::Type::delete_many, head(), {{"a"}, {"never was"}, {"b"}});
  ASSERT_EQ(removed.entries.size(), 3u);
  for (const auto& entry : removed.entries) EXPECT_EQ(entry.code, Errc::ok);
  EXPECT_EQ(store_.count("bucket"), 2u);
  EXPECT_EQ(door_->in_flight(), 0u);
}

TEST_F(BatchTest, SmallItemsAreStoredWithoutAWriterWhenNothingHasToBeWaitedFor) {
  store_.put("bucket", "there", "x");
  ask(wire::Type::head_many, head(), {{"there"}});  // the bucket's access is known from here on
  memory_.assign(65 * KiB, std::byte{'l'});
  const size_t before = store_.writers_made;
  auto put = ask(wire::Type::put_many, head(), {{"a", {}, "inline"}, {"b", {0, 64, 4 * KiB}}, {"c", {0, 0, 64 * KiB}}});
  ASSERT_EQ(put.entries.size(), 3u);
  for (const auto& entry : put.entries) {
    EXPECT_EQ(entry.code, Errc::ok);
    EXPECT_EQ(entry.etag.size(), 34u);
    EXPECT_GT(entry.modified_us, 0);
  }
  EXPECT_EQ(put.entries[1].length, 4 * KiB);
  EXPECT_EQ(store_.writers_made, before);
  EXPECT_EQ(store_.object("bucket", "a").data, "inline");
  EXPECT_EQ(store_.object("bucket", "b").data, std::string(4 * KiB, 'l'));
  EXPECT_EQ(store_.object("bucket", "c").data, std::string(64 * KiB, 'l'));
  // What has to be waited for, or asked for, has a writer.
  put = ask(wire::Type::put_many, head(),
            {{"large", {0, 0, 65 * KiB}}, {"new", {}, "x", wire::field_if_none_match, 0, "*"}, {"empty", {}, ""}});
  for (const auto& entry : put.entries) EXPECT_EQ(entry.code, Errc::ok);
  EXPECT_EQ(store_.writers_made, before + 3);
  EXPECT_EQ(arena_->leased_bytes(), 0u);
  EXPECT_EQ(door_->in_flight(), 0u);
}

TEST_F(BatchTest, AKeyThatIsWrittenTwiceRefusesTheBatch) {
  auto answer = ask(wire::Type::put_many, head(), {{"a", {}, "one"}, {"b", {}, "two"}, {"a", {}, "three"}});
  EXPECT_EQ(answer.refused, Errc::invalid_request);
  EXPECT_TRUE(store_.count("bucket") == 0);
  store_.put("bucket", "a", "x");
  answer = ask(wire::Type::delete_many, head(), {{"a"}, {"a"}});
  EXPECT_EQ(answer.refused, Errc::invalid_request);
  EXPECT_EQ(store_.count("bucket"), 1u);
}

TEST_F(BatchTest, HundredsOfWritesAtOnceAllHaveTheirOutcome) {
  std::vector<Item> items;
  for (int i = 0; i < 400; ++i) items.push_back({fmt::format("k{:04}", i), {}, fmt::format("bytes {}", i)});
  const auto answer = ask(wire::Type::put_many, head(), items);
  ASSERT_TRUE(answer.answered);
  EXPECT_EQ(store_.count("bucket"), 400u);
  for (const Item& item : items) EXPECT_EQ(store_.object("bucket", item.key).data, item.bytes);
}

TEST_F(BatchTest, ASessionOfVersionOneKnowsNoBatches) {
  FakePeer old = hello(2);
  const uint64_t before = dropped("bad_type");
  deliver(old, old.seal(wire::Type::head_many, 2, Bytes(body(wire::Type::head_many, head(), {{"a"}}))));
  EXPECT_TRUE(port_.sent.empty());
  EXPECT_EQ(dropped("bad_type"), before + 1);
}

TEST_F(BatchTest, AClientThatIsGoneBetweenTheItemsGetsNoMoreDone) {
  std::vector<Item> items;
  for (int i = 0; i < 300; ++i) items.push_back({fmt::format("k{:04}", i), {}, "x"});
  port_.receive(peer_.id,
                peer_.seal(wire::Type::put_many, ++request_, Bytes(body(wire::Type::put_many, head(), items))));
  port_.gone(peer_.id);
  run();
  EXPECT_LT(store_.count("bucket"), 300u);
  EXPECT_EQ(door_->in_flight(), 0u);
  EXPECT_TRUE(port_.sent.empty());
}

TEST_F(BatchTest, ACountThatLiesRefusesTheWritesBeforeOneIsMade) {
  auto lying = body(wire::Type::put_many, head(), {{"a", {}, "one"}, {"b", {}, "two"}});
  for (const uint16_t count : {0, 1, 3, 4096, 4097, 65535}) {
    lying[1] = static_cast<std::byte>(count);
    lying[2] = static_cast<std::byte>(count >> 8);
    deliver(peer_, peer_.seal(wire::Type::put_many, ++request_, Bytes(lying)));
    EXPECT_EQ(reply_code(peer_), Errc::invalid_request) << count;
  }
  EXPECT_TRUE(store_.count("bucket") == 0);
}

TEST_F(BatchTest, WhatLiesInMemoryAndWhatDoesNotComeInTheirOrder) {
  std::vector<Item> items;
  for (size_t i = 0; i < 60; ++i) {
    items.push_back({fmt::format("k{:02}", i), i % 3 == 0 ? wire::BatchPlace{0, i * 600, 600} : wire::BatchPlace{}});
    // Two in a row now and then, the last one, too: between those that say nothing but a name.
    if (i % 10 == 4 || i % 10 == 9 || i % 20 == 10) {
      items.back().fields = wire::field_if_match;
      items.back().condition = "*";
    }
    store_.put("bucket", items.back().key, std::string(1 + i * 7 % 500, static_cast<char>('a' + i % 26)));
  }
  for (const bool immediate : {true, false}) {
    immediate_ = immediate;
    for (const int cold : {1, 2, 7, 1000}) {
      make_hot();
      store_.is_hot = [=](std::string_view key) { return std::stoi(std::string(key.substr(1))) % cold != 0; };
      std::ranges::fill(memory_, std::byte{0});
      auto head = this->head();
      head.inline_max = 500;
      std::vector<Item> left = items;
      for (int messages = 0; !left.empty() && messages < 10; ++messages) {
        const auto answer = ask(wire::Type::get_many, head, left);
        ASSERT_GE(answer.entries.size(), 1u);
        for (size_t i = 0; i < answer.entries.size(); ++i) {
          const auto& entry = answer.entries[i];
          const std::string bytes = store_.object("bucket", left[i].key).data;
          ASSERT_EQ(entry.length, bytes.size()) << left[i].key;
          const auto got = entry.in_reply ? as_text(entry.inline_bytes) : memory(left[i].place.offset, entry.length);
          EXPECT_EQ(got, bytes) << left[i].key;
        }
        left.erase(left.begin(), left.begin() + static_cast<ptrdiff_t>(answer.entries.size()));
      }
      EXPECT_TRUE(left.empty());
      EXPECT_EQ(door_->in_flight(), 0u);
    }
  }
}

TEST_F(BatchTest, BatchesThatComeTogetherLetASingleGetPass) {
  const auto items = small_objects(200);
  make_hot();
  auto head = this->head();
  head.details = 0;
  for (int i = 0; i < 6; ++i) bring(wire::Type::head_many, head, items);
  const size_t served = port_.sent.size();
  EXPECT_LE(served, 2u) << "together they take one turn, as one large batch does";
  wire::Get get;
  get.bucket = "bucket";
  get.key = "k0000";
  get.inline_max = 100;
  port_.receive(peer_.id, peer_.seal(wire::Type::get, 999, get));
  ASSERT_EQ(port_.sent.size(), served + 1) << "what is one object waits for none of them";
  run();
  ASSERT_EQ(port_.sent.size(), 7u);
  for (size_t i = 0; i < 7; ++i) {
    uint64_t request = 0;
    reply_body(peer_, &request);
    EXPECT_EQ(request == 999, i == served) << i;
  }
}

TEST_F(BatchTest, AKeyThatIsRemovedInTheMidstOfABatchReadsAndWritesNoMore) {
  const auto items = small_objects(600);
  make_hot();
  auto head = this->head();
  head.details = 0;
  bring(wire::Type::head_many, head, items);
  credentials_.remove();
  const auto read = answer_to_it();
  ASSERT_EQ(read.entries.size(), 600u);
  EXPECT_EQ(read.entries.front().code, Errc::ok);
  EXPECT_EQ(read.entries.back().code, Errc::access_denied);

  credentials_.set({"AKROOT", "secret/root", ""});
  peer_ = hello(3, 2);
  std::vector<Item> writes;
  for (int i = 0; i < 300; ++i) writes.push_back({fmt::format("new{:04}", i), {}, "x"});
  bring(wire::Type::put_many, head, writes);
  credentials_.remove();
  const auto written = answer_to_it();
  ASSERT_EQ(written.entries.size(), 300u);
  EXPECT_EQ(written.entries.back().code, Errc::access_denied);
  EXPECT_FALSE(store_.contains("bucket", "new0299"));
  for (size_t i = 0; i < 300; ++i) {
    EXPECT_EQ(store_.contains("bucket", writes[i].key), written.entries[i].code == Errc::ok) << i;
  }
}

TEST_F(BatchTest, APolicyThatChangesInTheMidstOfABatchHoldsForWhatIsLeft) {
  const auto items = small_objects(600);
  make_hot();
  auto head = this->head();
  head.details = 0;
  bring(wire::Type::head_many, head, items);
  deny(R"("Action":"s3:GetObject","Resource":"arn:aws:s3:::bucket/*")");
  const auto answer = answer_to_it();
  ASSERT_EQ(answer.entries.size(), 600u);
  EXPECT_EQ(answer.entries.front().code, Errc::ok);
  EXPECT_EQ(answer.entries.back().code, Errc::access_denied);
}

// Credits are a session's, and a client may have hundreds of those: their requests held gigabytes, and the next client
// waited for all of them.
TEST_F(BatchTest, SessionsOfOneClientHaveOnlySoMuchUnderWayTogether) {
  constexpr uint64_t sessions = 40, credits = 8, most = 2048 / 8;
  store_.put("bucket", "k", "x");
  std::vector<FakePeer> peers;
  for (uint64_t i = 0; i < sessions; ++i) peers.push_back(hello(10 + i, 2));
  const auto refused = dropped("no_credit");
  port_.full = true;  // what is served stays under way
  auto head = this->head();
  head.windows.count = 0;
  for (FakePeer& peer : peers) {
    for (uint64_t i = 0; i < credits; ++i) {
      port_.receive(peer.id,
                    peer.seal(wire::Type::head_many, 2 + i, Bytes(body(wire::Type::head_many, head, {{"k"}}))));
    }
  }
  run();
  EXPECT_EQ(dropped("no_credit") - refused, sessions * credits - most);
  port_.full = false;
  run();
  EXPECT_EQ(port_.sent.size(), most);
  EXPECT_EQ(door_->in_flight(), 0u);
  port_.sent.clear();
  EXPECT_EQ(ask(wire::Type::head_many, head, {{"k"}}).refused, Errc::ok);
}

// A turn was so many items, and the cost of one depends on the bucket's policy.
TEST_F(BatchTest, ACostlyPolicyLeavesOthersTheirTurns) {
  constexpr size_t count = 48;
  std::vector<Item> items;
  for (size_t i = 0; i < count; ++i) {
    items.push_back({std::string(900, 'a') + fmt::format("{:04}", i)});
    store_.put("bucket", items.back().key, "x");
  }
  std::string resources;
  for (int i = 0; i < 20; ++i) {
    resources += i == 0 ? "\"" : ",\"";
    resources += "arn:aws:s3:::bucket/*";
    for (int j = 0; j < 30; ++j) resources += "a?";
    resources += fmt::format("b{}\"", i);
  }
  deny((R"("Action":"s3:*","Resource":[)" + resources + "]").c_str());
  ReadBatch::turn_time = read_turn_;
  make_hot();
  auto head = this->head();
  head.details = 0;
  bring(wire::Type::head_many, head, items);
  size_t turns = 0;
  for (; port_.sent.empty() && turns < 10'000; ++turns) {
    core_.io().restart();
    core_.io().poll();
    door_->poll();
  }
  EXPECT_EQ(answer_to_it().entries.size(), count);
  EXPECT_GE(turns, count / 16);
}

TEST_F(BatchTest, SecureTransportIsAskedOfEveryItem) {
  small_objects(2);
  deny(R"("Action":"s3:*","Resource":"arn:aws:s3:::bucket*","Condition":{"Bool":{"aws:SecureTransport":"false"}})");
  for (const bool encrypted : {false, true}) {
    port_.is_encrypted = encrypted;
    peer_ = hello(encrypted ? 4 : 3, 2);
    const Errc wanted = encrypted ? Errc::ok : Errc::access_denied;
    const auto got = ask(wire::Type::get_many, head(), {{"k0000", {0, 0, 10}}, {"k0001", {0, 10, 10}}});
    ASSERT_EQ(got.entries.size(), 2u);
    for (const auto& entry : got.entries) EXPECT_EQ(entry.code, wanted);
    const auto put = ask(wire::Type::put_many, head(), {{"new", {}, "x"}});
    ASSERT_EQ(put.entries.size(), 1u);
    EXPECT_EQ(put.entries[0].code, wanted);
    const auto removed = ask(wire::Type::delete_many, head(), {{"k0001"}});
    ASSERT_EQ(removed.entries.size(), 1u);
    EXPECT_EQ(removed.entries[0].code, wanted);
  }
}

TEST_F(BatchTest, WhatNobodyWaitsForAnyMoreIsNotBegun) {
  std::vector<Item> items;
  for (int i = 0; i < 300; ++i) items.push_back({fmt::format("k{:04}", i), {}, "x"});
  peer_.timeout_ms = 1;
  bring(wire::Type::put_many, head(), items);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const auto answer = answer_to_it();
  ASSERT_TRUE(answer.answered);
  EXPECT_LT(answer.entries.size(), 300u);
  EXPECT_EQ(store_.count("bucket"), answer.entries.size()) << "exactly the executed items are reported";
}

TEST_F(BatchTest, WhatLiesInMemoryGoesOutTogether) {
  std::vector<Item> items;
  for (size_t i = 0; i < 16; ++i) {
    const size_t size = i == 9 ? 120 : 100;  // its place is too small; that of the others is not
    items.push_back({fmt::format("k{:03}", i), {0, i * 100 + (i < 5 ? 0 : 40), 100}});
    store_.put("bucket", items.back().key, std::string(size, static_cast<char>('a' + i)));
  }
  make_hot();
  store_.is_hot = [](std::string_view key) { return key != "k012"; };
  auto head = this->head();
  head.inline_max = 0;
  window_.writes = 0;
  const auto answer = ask(wire::Type::get_many, head, items);
  ASSERT_EQ(answer.entries.size(), 16u);
  for (size_t i = 0; i < 16; ++i) {
    ASSERT_EQ(answer.entries[i].code, i == 9 ? Errc::too_large : Errc::ok) << i;
    EXPECT_EQ(memory(items[i].place.offset, 100), std::string(100, i == 9 ? '\0' : static_cast<char>('a' + i))) << i;
  }
  EXPECT_EQ(memory(500, 40), std::string(40, '\0')) << "between the places";
  // Up to what fails; behind that each by itself, as far as they were looked up together.
  EXPECT_EQ(window_.writes, 1 + 6);
}

TEST_F(BatchTest, SmallOnesWhosePlacesLieSideBySideAreWrittenTogether) {
  immediate_ = false;
  std::vector<Item> items;
  for (size_t i = 0; i < 200; ++i) {
    items.push_back({fmt::format("k{:03}", i), {0, i * 100, 100}});
    store_.put("bucket", items.back().key, std::string(100, static_cast<char>('a' + i % 26)));
  }
  make_hot();
  auto head = this->head();
  head.inline_max = 0;
  window_.writes = 0;
  const auto answer = ask(wire::Type::get_many, head, items);
  ASSERT_EQ(answer.entries.size(), 200u);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(answer.entries[i].code, Errc::ok);
    EXPECT_EQ(memory(i * 100, 100), store_.object("bucket", items[i].key).data);
  }
  EXPECT_LE(window_.writes, 20);
}

TEST_F(BatchTest, SmallOnesWhosePlacesLieSideBySideAreFetchedTogether) {
  ask(wire::Type::head_many, head(), {{"anything"}});  // the bucket's access is known from here on
  immediate_ = false;
  for (size_t i = 0; i < memory_.size(); ++i) memory_[i] = static_cast<std::byte>(i * 7 + i / 256);
  std::vector<Item> items;
  for (size_t i = 0; i < 200; ++i) items.push_back({fmt::format("k{:03}", i), {0, i * 100 + (i < 150 ? 0 : 50), 100}});
  const auto answer = ask(wire::Type::put_many, head(), items);
  ASSERT_EQ(answer.entries.size(), 200u);
  for (size_t i = 0; i < 200; ++i) {
    EXPECT_EQ(answer.entries[i].code, Errc::ok);
    EXPECT_EQ(store_.object("bucket", items[i].key).data, memory(items[i].place.offset, 100));
  }
  EXPECT_EQ(window_.reads, 2) << "up to the gap, and from there on";
  EXPECT_EQ(arena_->leased_bytes(), 0u);
}

TEST_F(BatchTest, OneOfThemThatIsNotThereIsTheOnlyOneThatFails) {
  immediate_ = false;
  window_.readable = 1000;
  std::vector<Item> items;
  for (size_t i = 0; i < 11; ++i) items.push_back({fmt::format("k{:03}", i), {0, i * 100, 100}});
  const auto answer = ask(wire::Type::put_many, head(), items);
  ASSERT_EQ(answer.entries.size(), 11u);
  for (size_t i = 0; i < 10; ++i) EXPECT_EQ(answer.entries[i].code, Errc::ok) << i;
  EXPECT_EQ(answer.entries[10].code, Errc::rdma_transfer_failed);
  EXPECT_EQ(store_.count("bucket"), 10u);
}

// Writes are bounded for all together, and a client may let them wait for its bytes as long as an operation may take.
TEST_F(BatchTest, AClientWhoseBytesDoNotComeKeepsNobodyElseFromWriting) {
  ask(wire::Type::head_many, head(), {{"anything"}});  // the bucket's access is known from here on
  immediate_ = false;
  window_.silent = true;
  for (size_t batch = 0; batch < 6; ++batch) {
    std::vector<Item> items;
    for (size_t i = 0; i < 250; ++i) items.push_back({fmt::format("{}/{:03}", batch, i), {0, batch * 250 + i, 1}});
    bring(wire::Type::put_many, head(), items);
  }
  run();
  EXPECT_TRUE(port_.sent.empty());
  client_address_ = "10.0.0.2";
  const FakePeer slow = std::exchange(peer_, hello(7, 2));
  const auto answer = ask(wire::Type::put_many, head(), {{"of another", {}, "x"}, {"too", {}, "y"}});
  ASSERT_EQ(answer.entries.size(), 2u);
  EXPECT_EQ(answer.entries[0].code, Errc::ok);
  EXPECT_TRUE(store_.contains("bucket", "too"));
  window_.silent = false;
  for (int i = 0; i < 10'000 && door_->in_flight() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run();
  }
  EXPECT_EQ(door_->in_flight(), 0u);
  EXPECT_EQ(store_.count("bucket"), 1502u);
}

// A batch's items that were being read were stored whatever had become of the client.
TEST_F(BatchTest, WhatIsStillBeingReadWhenTheStreamEndsIsNotStored) {
  immediate_ = false;
  window_.silent = true;
  bring(wire::Type::put_many, head(), {{"one", {0, 0, 100}}, {"two", {0, 200, 100}}});
  wire::Put put{.bucket = "bucket", .key = "alone"};
  put.size = 100;
  put.window = {0, memory_.size(), 1};
  port_.receive(peer_.id, peer_.seal(wire::Type::put, ++request_, put, wire::flag_window));
  run();
  EXPECT_EQ(door_->in_flight(), 2u);
  EXPECT_GT(window_.reads, 0);
  port_.receive(peer_.id, peer_.seal(wire::Type::bye, ++request_, Bytes()));
  window_.silent = false;
  for (int i = 0; i < 10'000 && door_->in_flight() != 0; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    run();
  }
  EXPECT_EQ(door_->in_flight(), 0u);
  EXPECT_EQ(store_.count("bucket"), 0u);
}

TEST_F(BatchTest, NothingIsFetchedOfWhatNobodyLetsTheCallerWrite) {
  be_of_another_account();
  const auto open = R"({"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*",)"
                    R"("Action":"s3:PutObject","Resource":"arn:aws:s3:::bucket/open/*"}})";
  store_.document("bucket", "policy", open);
  service_.access->all_changed();
  immediate_ = false;
  std::vector<Item> items;
  for (size_t i = 0; i < 100; ++i) items.push_back({fmt::format("shut/{:03}", i), {0, i, 1}});
  for (int known = 0; known < 2; ++known) {
    const auto answer = ask(wire::Type::put_many, head(), items);
    ASSERT_EQ(answer.entries.size(), 100u);
    for (const auto& entry : answer.entries) EXPECT_EQ(entry.code, Errc::access_denied);
    EXPECT_EQ(window_.reads, 0);
  }
  EXPECT_EQ(ask(wire::Type::put_many, head(), {{"open/k", {0, 0, 1}}}).entries.front().code, Errc::ok);
  EXPECT_EQ(window_.reads, 1);
}

TEST_F(BatchTest, AStrangersBatchUsesUpNothingOfABucketsRate) {
  store_.document("bucket", "quota", R"({"requests_per_second":10})");
  store_.put("bucket", "k", "x");
  be_the_owner();
  EXPECT_EQ(ask(wire::Type::head_many, head(), {{"k"}}).entries.front().code, Errc::ok);
  be_of_another_account();
  const auto refused = ask(wire::Type::head_many, head(), std::vector<Item>(500, {"k"}));
  ASSERT_FALSE(refused.entries.empty());
  EXPECT_EQ(refused.entries.front().code, Errc::access_denied);
  be_the_owner();
  EXPECT_EQ(ask(wire::Type::head_many, head(), std::vector<Item>(500, {"k"})).refused, Errc::ok);
  EXPECT_EQ(ask(wire::Type::head_many, head(), {{"k"}}).refused, Errc::slow_down) << "what the owner has used up";
}

TEST_F(BatchTest, AWindowThatTakesNothingFailsItsItemsAndTheBatchEnds) {
  const auto names = small_objects(100);
  for (const bool immediate : {true, false}) {
    immediate_ = immediate;
    window_.broken = true;
    make_hot();
    std::vector<Item> items = names;
    for (size_t i = 0; i < items.size(); ++i) items[i].place = {0, 8 + i, 1};
    auto head = this->head();
    head.inline_max = 0;
    head.progress_window = 0;
    head.progress_offset = 0;
    const auto answer = ask(wire::Type::get_many, head, items);
    ASSERT_EQ(answer.entries.size(), 100u);
    for (const auto& entry : answer.entries) EXPECT_EQ(entry.code, Errc::rdma_transfer_failed);
    EXPECT_EQ(wire::Reader(memory_).u64(), 0u) << "none has arrived";
    EXPECT_EQ(door_->in_flight(), 0u);
    EXPECT_EQ(arena_->leased_bytes(), 0u);
  }
}

TEST_F(BatchTest, ItemsThatAQuotaHasNoRoomForAreRefusedOneByOne) {
  store_.document("bucket", "quota", R"({"bytes":1000,"objects":3})");
  service_.access->all_changed();
  const auto answer = ask(wire::Type::put_many, head(),
                          {{"a", {}, std::string(600, 'a')},
                           {"b", {}, std::string(600, 'b')},
                           {"c", {}, std::string(300, 'c')},
                           {"d", {}, "d"},
                           {"e", {}, "e"}});
  ASSERT_EQ(answer.entries.size(), 5u);
  const std::vector<Errc> wanted = {Errc::ok, Errc::quota_exceeded, Errc::ok, Errc::ok, Errc::quota_exceeded};
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_EQ(answer.entries[i].code, wanted[i]) << i;
  const auto removed = ask(wire::Type::delete_many, head(), {{"a"}, {"c"}});
  EXPECT_EQ(removed.entries.front().code, Errc::ok);
  EXPECT_EQ(ask(wire::Type::put_many, head(), {{"b", {}, std::string(600, 'b')}}).entries.front().code, Errc::ok);
}

}  // namespace
}  // namespace verbena::native
