// For tests: sends batches to the door and reads the replies.
#pragma once

#include <fmt/format.h>

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "native/read_batch.h"
#include "native/test_door.h"
#include "native/wire/batch.h"
#include "native/wire/cursor.h"
#include "native/write_batch.h"
#include "s3/access/access.h"

namespace verbena::native {

// Memory visible to the test, behind a transport that copies at once or that completes later.
class TestWindow final : public fabric::Window {
 public:
  struct State {
    std::vector<std::byte> memory = std::vector<std::byte>(64 * KiB);
    bool immediate = true, broken = false;
    size_t readable = SIZE_MAX;  // bytes beyond it are missing
    bool silent = false;         // reads complete only when it is false again
    int writes = 0, reads = 0;
  };
  explicit TestWindow(State& state) : memory_(state.memory), state_(state) {}
  uint64_t size() const override { return memory_.size(); }
  Task<Result<void>> write(Bytes from, uint64_t at, Deadline) override {
    ++state_.writes;
    if (state_.broken) co_return fail(Errc::rdma_transfer_failed, "test");
    std::memcpy(memory_.data() + at, from.data(), from.size());
    co_return Result<void>{};
  }
  Task<Result<void>> read(MutableBytes into, uint64_t at, Deadline) override {
    ++state_.reads;
    while (state_.silent) {
      boost::asio::steady_timer soon(co_await boost::asio::this_coro::executor, std::chrono::milliseconds(1));
      co_await soon.async_wait(boost::asio::use_awaitable);
    }
    if (at + into.size() > state_.readable) co_return fail(Errc::rdma_transfer_failed, "test");
    std::memcpy(into.data(), memory_.data() + at, into.size());
    co_return Result<void>{};
  }
  size_t immediate_size_max() const override { return state_.immediate ? 64 * KiB : 0; }
  Result<void> read_now(MutableBytes into, uint64_t at) override {
    if (state_.broken) return fail(Errc::rdma_transfer_failed, "test");
    std::memcpy(into.data(), memory_.data() + at, into.size());
    return {};
  }
  Result<void> write_all_now(std::span<const Write> writes) override {
    ++state_.writes;
    if (state_.broken) return fail(Errc::rdma_transfer_failed, "test");
    for (const auto& [from, at] : writes) std::memcpy(memory_.data() + at, from.data(), from.size());
    return {};
  }

 private:
  std::vector<std::byte>& memory_;
  State& state_;
};

struct Item {
  std::string key;
  wire::BatchPlace place{};
  std::string bytes{};
  uint8_t fields = 0;
  uint8_t bucket = 0;
  std::string condition{};
};

class BatchTest : public DoorTest {
 protected:
  BatchTest() : DoorTest({.credits = 8}) {
    port_.make_window = [this] { return std::make_unique<TestWindow>(window_); };
  }
  // A slow machine ends no turn before its items or bytes do.
  void SetUp() override { ReadBatch::turn_time = WriteBatch::turn_time = std::chrono::hours(1); }
  void TearDown() override {
    ReadBatch::turn_time = read_turn_;
    WriteBatch::turn_time = write_turn_;
  }
  wire::BatchHead head() const {
    wire::BatchHead head;
    head.details = wire::detail_etag | wire::detail_size;
    head.windows.add({0, memory_.size(), 1});
    head.buckets.add("bucket");
    return head;
  }
  std::vector<std::byte> body(wire::Type type, wire::BatchHead head, const std::vector<Item>& items) {
    if (type == wire::Type::head_many || type == wire::Type::delete_many) head.windows.count = 0;
    std::vector<std::byte> space(15 * KiB);
    wire::Writer out(space);
    wire::BatchWriter batch(out, type);
    EXPECT_TRUE(batch.begin(head));
    wire::BatchItem wire_item;
    for (const Item& item : items) {
      wire_item.fields = item.fields;
      wire_item.bucket = item.bucket;
      wire_item.key = item.key;
      wire_item.place = item.place;
      wire_item.inline_bytes = as_bytes(item.bytes);
      wire_item.if_match = wire_item.if_none_match = item.condition;
      if (item.place.window != wire::no_window) wire_item.fields |= wire::field_place;
      if (type == wire::Type::put_many && item.place.window == wire::no_window) wire_item.fields |= wire::field_inline;
      EXPECT_TRUE(batch.add(wire_item));
    }
    batch.finish();
    space.resize(out.size());
    return space;
  }
  struct Answer {
    Errc refused = Errc::ok;
    std::vector<wire::BatchEntry> entries;
    std::vector<std::byte> body;  // the entries point into it
    bool answered = false;
  };
  Answer ask(wire::Type type, const wire::BatchHead& head, const std::vector<Item>& items) {
    deliver(peer_, peer_.seal(type, ++request_, Bytes(body(type, head, items))));
    return parsed(reply_body(peer_));
  }
  static Answer parsed(std::vector<std::byte> body) {
    Answer answer;
    answer.body = std::move(body);
    if (answer.body.empty()) return answer;
    answer.answered = true;
    answer.refused = *wire::decode_error(answer.body);
    if (answer.refused != Errc::ok) return answer;
    auto reply = wire::decode_batch_reply(answer.body);
    EXPECT_TRUE(reply);
    for (size_t i = 0; reply && i < reply->answered; ++i) {
      EXPECT_TRUE(wire::next_entry(*reply, answer.entries.emplace_back()));
    }
    return answer;
  }
  // Sends a batch, without running any work yet.
  void bring(wire::Type type, const wire::BatchHead& head, const std::vector<Item>& items) {
    port_.receive(peer_.id, peer_.seal(type, ++request_, Bytes(body(type, head, items))));
  }
  Answer answer_to_it() {
    run();
    return parsed(reply_body(peer_));
  }
  std::vector<Item> small_objects(size_t count) {
    std::vector<Item> items;
    for (size_t i = 0; i < count; ++i) {
      items.push_back({fmt::format("k{:04}", i)});
      store_.put("bucket", items.back().key, "x");
    }
    return items;
  }
  void deny(const char* statement) {
    store_.document(
        "bucket", "policy",
        fmt::format(R"({{"Version":"2012-10-17","Statement":{{"Effect":"Deny","Principal":"*",{}}}}})", statement));
    service_.access->all_changed();
  }
  // The account that owns the bucket, but not the server's own key; or an account without an entry.
  void be_the_owner() { be(auth::superuser()->account); }
  void be_of_another_account() {
    be(std::make_shared<const auth::Account>(auth::Account{
        .id = "210987654321", .canonical_id = std::string(64, 'e'), .display_name = "other", .email = ""}));
  }
  void be(auth::AccountPtr account) {
    auth::Principal who = *auth::superuser();
    who.superuser = false;
    who.account = std::move(account);
    who.arn = "arn:aws:iam::" + who.account->id + ":root";
    credentials_.set({"AKROOT", "secret/root", ""}, std::make_shared<const auth::Principal>(std::move(who)));
    peer_ = hello(++peer_id_, 2);
  }
  // Prepares service from memory: evaluates the bucket's access.
  void make_hot() {
    store_.is_hot = [](std::string_view) { return true; };
    ask(wire::Type::head_many, head(), {{"anything"}});
  }
  // The bytes of a key by the lease, or its code.
  std::string get_by_lease(uint64_t lease, const std::string& key) {
    wire::BatchHead in_reply = head();
    in_reply.inline_max = 1000;
    std::vector<std::byte> message = body(wire::Type::get_many, in_reply, {{key}});
    message.resize(message.size() + wire::lease_size);
    wire::Writer(MutableBytes(message).last(wire::lease_size)).u64(lease);
    deliver(peer_, peer_.seal(wire::Type::get_many, ++request_, Bytes(message), wire::flag_lease));
    const Answer answer = parsed(reply_body(peer_));
    if (answer.entries.empty()) return "refused";
    const wire::BatchEntry& entry = answer.entries.front();
    return entry.code == Errc::ok ? std::string(as_text(entry.inline_bytes)) : std::string(to_string(entry.code));
  }
  std::string_view memory(size_t at, size_t size) const { return as_text(Bytes(memory_).subspan(at, size)); }

  TestWindow::State window_;
  std::vector<std::byte>& memory_ = window_.memory;
  bool& immediate_ = window_.immediate;
  FakePeer peer_ = hello(1, 2);
  const std::chrono::nanoseconds read_turn_ = ReadBatch::turn_time;
  const std::chrono::nanoseconds write_turn_ = WriteBatch::turn_time;
  fabric::PeerId peer_id_ = 50;
  uint64_t request_ = 10;
};

}  // namespace verbena::native
